"""Products in every shape: finished, ragged and grouped ones, and attention over paged caches, against float64.

Run as ``python -m benchmarks.gpu_products [--seed N]`` on a Hopper GPU, from the repository's root. Inputs are fresh
random numbers; the exit code is 1 if anything is wrong or fails.
"""

import argparse
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from typedpallas.kernels import grouped_matmul, matmul, paged_attention
from typedpallas.launching.checks import left_to_the_compiler

TOLERANCE = {"float16": 1e-3, "bfloat16": 6e-3, "float32": 1e-4}
"""By the type of the result: the largest relative error (Frobenius norm) that passes."""


@dataclass(frozen=True)
class Case:
    """One call, and what float64 makes of the same arrays."""

    name: str
    run: Callable[..., jax.Array]
    arrays: tuple[jax.Array, ...]
    reference: Callable[..., np.ndarray]


def main() -> int:
    """Print a line for each case; 0 if all are right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="of the random inputs; fresh unless given")
    parser.add_argument("names", nargs="*", help="parts of cases' names; all of them")
    options = parser.parse_args()
    seed, names = options.seed, options.names
    seed = secrets.randbits(31) if seed is None else seed
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}, seed {seed}", flush=True)
    random = np.random.default_rng(seed)
    cases = (*finished(random), *grouped(random), *paged(random))
    chosen = [case for case in cases if not names or any(part in case.name for part in names)]
    with left_to_the_compiler():
        failures = sum(not report(case) for case in chosen)
    print(f"{failures} wrong" if failures else "all right")
    return 1 if failures else 0


def report(case: Case) -> bool:
    """Run one case twice, print its line; whether it is right both times."""
    line = f"{case.name:72}"
    try:
        run = jax.jit(case.run)
        found = [np.asarray(jax.block_until_ready(run(*case.arrays)), np.float64) for _ in range(2)]
        kind = jax.eval_shape(case.run, *case.arrays).dtype
    except Exception as error:
        print(f"{line}  FAILED: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
        return False
    expected = case.reference(*(np.asarray(x, np.int64 if x.dtype == jnp.int32 else np.float64) for x in case.arrays))
    error_ = max(float(np.linalg.norm(one - expected) / np.linalg.norm(expected)) for one in found)
    right = error_ <= TOLERANCE[kind.name]  # false for NaN
    print(f"{line}  error {error_:.1e}  {'ok' if right else 'WRONG'}", flush=True)
    return right


def _normal(random: np.random.Generator, dtype: Any, *shape: int) -> jax.Array:
    return jnp.asarray(random.standard_normal(shape, np.float32)).astype(dtype)


def _silu(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / (1 + np.exp(-x)))


ACTIVATIONS: dict[str, tuple[Any, Callable[[np.ndarray], np.ndarray]]] = {
    "none": (None, lambda x: x),
    "relu": (jax.nn.relu, lambda x: np.maximum(x, 0)),
    "silu": (jax.nn.silu, _silu),
    "tanh": (jnp.tanh, np.tanh),
}


def finished(random: np.random.Generator) -> Iterator[Case]:
    """Matrix products with bias, scale, activation and type of the result; sizes that no tile divides."""
    shapes = ((1024, 512, 1024), (1000, 500, 1000), (65, 72, 130), (1, 4096, 257), (2049, 64, 513), (384, 1024, 64))
    for number, (m, k, n) in enumerate(shapes):
        for dtype in (jnp.float16, jnp.bfloat16):
            for out, (name, (activation, plain)), biased in (
                (dtype, list(ACTIVATIONS.items())[number % 4], True),
                (jnp.float32, list(ACTIVATIONS.items())[(number + 1) % 4], False),
            ):
                arrays = [_normal(random, dtype, *shape) for shape in ((m, k), (k, n), *([(n,)] * biased))]
                scale = k**-0.5

                def run(
                    a: jax.Array,
                    b: jax.Array,
                    *bias: jax.Array,
                    act: Any = activation,
                    s: float = scale,
                    o: Any = out,
                ) -> jax.Array:
                    return matmul(a, b, bias=bias[0] if bias else None, scale=s, activation=act, out_dtype=o)

                def reference(
                    a: np.ndarray, b: np.ndarray, *bias: np.ndarray, act: Any = plain, s: float = scale
                ) -> np.ndarray:
                    return np.asarray(act(a @ b * s + (bias[0] if bias else 0)))

                names = f"{jnp.dtype(dtype).name} ({m},{k},{n}) to {jnp.dtype(out).name}, {name}, bias {biased}"
                yield Case(f"matmul {names}", run, tuple(arrays), reference)


def grouped(random: np.random.Generator) -> Iterator[Case]:
    """Rows in groups: of any sizes, empty ones and rows of no group among them."""
    for m, k, n, sizes in (
        (1024, 512, 512, (256, 256, 256, 256)),
        (1000, 256, 384, (0, 300, 1, 0, 128, 571)),
        (777, 64, 128, (5, 0, 700)),
        (4096, 1024, 1024, tuple(int(x) for x in random.multinomial(4000, [1 / 16] * 16))),
        (64, 128, 256, (0, 0, 0, 64)),
    ):
        for dtype in (jnp.float16, jnp.bfloat16):
            arrays = (
                _normal(random, dtype, m, k),
                _normal(random, dtype, len(sizes), k, n),
                jnp.asarray(sizes, jnp.int32),
            )
            name = f"grouped {jnp.dtype(dtype).name} ({m},{k},{n}) {len(sizes)} groups, {m - sum(sizes)} rows of none"
            yield Case(name, grouped_matmul, arrays, _grouped)


def _grouped(a: np.ndarray, b: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    out = np.zeros((len(a), b.shape[2]))
    start = 0
    for matrix, size in zip(b, sizes, strict=True):
        out[start : start + size] = a[start : start + size] @ matrix
        start += size
    return out


def paged(random: np.random.Generator) -> Iterator[Case]:
    """One new token a sequence, of any lengths."""
    for batch, heads, kv_heads, head_dim, page, most in (
        (5, 32, 8, 128, 64, 17),
        (3, 16, 16, 64, 128, 5),
        (2, 64, 1, 128, 128, 9),
        (1, 8, 8, 64, 64, 40),
    ):
        for dtype in (jnp.float16, jnp.bfloat16):
            cache = (kv_heads, batch * most, page, head_dim)
            q, k, v = (_normal(random, dtype, *s) for s in ((batch, heads, head_dim), cache, cache))
            table = jnp.asarray(random.permutation(batch * most).reshape(batch, most), jnp.int32)
            lengths = random.integers(1, most * page + 1, batch)
            lengths[0] = 1
            arrays = (q, k, v, table, jnp.asarray(lengths, jnp.int32))
            name = f"decode {jnp.dtype(dtype).name} ({batch},{heads},{kv_heads},{head_dim},{page},{most})"
            yield Case(name, paged_attention, arrays, _paged)


def _paged(q: np.ndarray, k: np.ndarray, v: np.ndarray, table: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    out = np.zeros(q.shape)
    shared = q.shape[1] // k.shape[0]
    for sequence, length in enumerate(lengths):
        for head in range(q.shape[1]):
            keys, values = (x[head // shared, table[sequence]].reshape(-1, q.shape[2])[:length] for x in (k, v))
            scores = keys @ q[sequence, head] * q.shape[2] ** -0.5
            weights = np.exp(scores - scores.max())
            out[sequence, head] = weights @ values / weights.sum()
    return out


if __name__ == "__main__":
    sys.exit(main())
