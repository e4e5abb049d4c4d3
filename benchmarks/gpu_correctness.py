"""The three kernels on the GPU of this machine, on both backends, against float32 references.

Run as ``python -m benchmarks.gpu_correctness [--seed N]`` from the repository's root. It needs a GPU of compute
capability 9.0 or newer (8.0 for Triton alone), JAX with CUDA, and this package; no type checker. Inputs are fresh
random numbers; the exit code is 1 if anything is wrong or fails.
"""

import argparse
import functools
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp

from typedpallas.events import Backend
from typedpallas.launching import Launch
from typedpallas.launching.choose import choices

TOLERANCE = {"float32": 2e-3, "float16": 2e-3, "bfloat16": 1.5e-2}
"""The largest relative error (Frobenius norm) that passes. Float32 products run in TF32 on Triton."""


@dataclass(frozen=True)
class Case:
    """One kernel on fresh inputs; ``rows`` is the block of output rows."""

    name: str
    launch: Launch
    arrays: tuple[jax.Array, ...]
    reference: Callable[..., jax.Array]
    sizes: dict[str, int]


def main() -> int:
    """Print a line for each case; 0 if all are right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="of the random inputs; fresh unless given")
    seed = parser.parse_args().seed
    seed = secrets.randbits(31) if seed is None else seed
    device = jax.devices()[0]
    print(f"jax {jax.__version__}, {device.device_kind}, seed {seed}")
    if device.platform != "gpu":
        print("no GPU here", file=sys.stderr)
        return 2
    ways = choices(None, None)
    failures = 0
    for way in ways:
        for case in cases(jax.random.key(seed), way.backend, way.capability):
            failures += not report(case, way.backend)
    print(f"{failures} wrong" if failures else "all right")
    return 1 if failures else 0


def report(case: Case, backend: Backend) -> bool:
    """Run one case, print its line; whether it is right."""
    dtype = case.arrays[0].dtype.name
    launch = replace(case.launch, backend=backend, interpret=None, _compiled={})
    shape = "x".join(map(str, case.arrays[0].shape))
    line = f"{backend:11} {case.name:24} {dtype:9} {shape:18} {case.sizes}"
    try:
        found = jax.block_until_ready(launch(*case.arrays, **case.sizes)).astype(jnp.float32)
    except Exception as error:
        print(f"{line}  FAILED: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
        return False
    expected = case.reference(*(x.astype(jnp.float32) for x in case.arrays))
    error_ = float(jnp.linalg.norm((found - expected).ravel()) / jnp.linalg.norm(expected.ravel()))
    right = error_ <= TOLERANCE[dtype]  # false for NaN
    print(f"{line}  relative error {error_:.2e}  {'ok' if right else 'WRONG'}")
    return right


def cases(key: jax.Array, backend: str, capability: tuple[int, int] | None) -> Iterator[Case]:
    """Every kernel in every element type that the backend multiplies."""
    relu, matmul, attention = (
        import_module(f"typedpallas.kernels.{name}") for name in ("scaled_relu", "matmul", "flash_attention")
    )
    blackwell = capability is not None and capability >= (10, 0) and backend == "mosaic_gpu"
    half = (jnp.float16, jnp.bfloat16)
    for dtype in (*half, jnp.float32):
        make = functools.partial(_normal, key, dtype)
        yield Case("scaled relu", relu.launch, (make(0, 1024, 2048),), _relu, {"BM": 64, "BN": 128})
        if dtype is jnp.float32 and backend == "mosaic_gpu":
            continue
        wide = dtype is jnp.float32
        pair = make(0, 1024, 2048), make(1, 2048, 512)
        sizes = {"BM": 128, "BK": 32 if wide else 64, "BN": 128}
        yield Case("matmul", matmul.launch, pair, _matmul, sizes)
        for causal in (False, True):
            for head_dim in (64, 128):
                triple = tuple(make(i, 2, 4, 1024, head_dim) for i in range(3))
                launch = attention.launch(causal=causal, scale=head_dim**-0.5)
                reference = functools.partial(_attention, causal=causal)
                blocks = {"BQ": 128 if blackwell else 64, "BK": 16 if wide else 64}
                yield Case(f"attention {'causal' if causal else 'full'}", launch, triple, reference, blocks)


def _normal(key: jax.Array, dtype: Any, number: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.fold_in(key, number), shape, jnp.float32).astype(dtype)


def _relu(x: jax.Array) -> jax.Array:
    return jnp.maximum(x * 2 + 1, 0)


def _matmul(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.matmul(x, y, precision="highest")


def _attention(q: jax.Array, k: jax.Array, v: jax.Array, causal: bool) -> jax.Array:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, precision="highest") * q.shape[-1] ** -0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v, precision="highest")


if __name__ == "__main__":
    sys.exit(main())
