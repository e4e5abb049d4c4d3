"""The Hopper attention under every mask, forward and backward, against references in float32.

Run as ``python -m benchmarks.gpu_masks [--seed N]`` on a Hopper GPU, from the repository's root. Inputs are fresh
random numbers; the exit code is 1 if anything is wrong or fails.
"""

import argparse
import itertools
import secrets
import sys
from typing import Any

import jax
import jax.numpy as jnp

from typedpallas.kernels.gpu.attention_gradients import Options, differentiable_attention
from typedpallas.launching.checks import left_to_the_compiler

TOLERANCE = {"float16": 3e-3, "bfloat16": 2e-2}
LENGTH = 768


def main() -> int:
    """Print a line for each mask; 0 if all are right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="of the random inputs; fresh unless given")
    parser.add_argument(
        "--head-dims", type=int, nargs="*", default=(64, 128, 256), help="64, 128 and 256 unless given"
    )
    options = parser.parse_args()
    seed = options.seed
    seed = secrets.randbits(31) if seed is None else seed
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}, seed {seed}", flush=True)
    failures = 0
    masks = ((False, None, False), (True, None, False), (True, 100, False), (False, None, True), (True, 200, True))
    with left_to_the_compiler():
        for number, (head_dim, mask) in enumerate(itertools.product(options.head_dims, masks)):
            key = jax.random.fold_in(jax.random.key(seed), number)
            failures += not report(key, head_dim, jnp.float16 if number % 2 else jnp.bfloat16, *mask)
    print(f"{failures} wrong" if failures else "all right")
    return 1 if failures else 0


def report(key: jax.Array, head_dim: int, dtype: Any, causal: bool, window: int | None, segmented: bool) -> bool:
    """Run one mask, print its line; whether it is right. Segmented heads of 256 have no backward pass."""
    sizes = [(2, LENGTH, heads, head_dim) for heads in (4, 2, 2, 4)]
    arrays = [
        jax.random.normal(jax.random.fold_in(key, i), s, jnp.float32).astype(dtype) for i, s in enumerate(sizes)
    ]
    weights = jax.random.normal(jax.random.fold_in(key, 4), (2, 4, LENGTH), jnp.float32)
    ids = jnp.sort(jax.random.randint(jax.random.fold_in(key, 5), (2, LENGTH), 0, 4), axis=1)
    segments = (ids, ids) if segmented else None
    options = Options(causal=causal, window=window)
    line = f"{jnp.dtype(dtype).name:9} {head_dim:4} causal {causal!s:5} window {window!s:5} segments {segmented!s:5}"

    def ours(q: jax.Array, k: jax.Array, v: jax.Array) -> Any:
        return differentiable_attention(q, k, v, segments, options)

    def plain(q: jax.Array, k: jax.Array, v: jax.Array) -> Any:
        return reference(q, k, v, segments, causal, window)

    backward = head_dim <= 128 or not segmented
    try:
        found = jax.jit(lambda *a: both(ours, a, backward))(*arrays, weights)
        jax.block_until_ready(found)
    except Exception as error:
        print(f"{line}  FAILED: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
        return False
    wide = [x.astype(jnp.float32) for x in arrays]
    expected = jax.jit(lambda *a: both(plain, a, backward))(*wide, weights)
    errors = [
        float(jnp.linalg.norm((one.astype(jnp.float32) - other).ravel()) / jnp.linalg.norm(other.ravel()))
        for one, other in zip(found, expected, strict=True)
    ]
    right = all(error <= TOLERANCE[jnp.dtype(dtype).name] for error in errors)  # false for NaN
    print(f"{line}  errors {' '.join(f'{e:.1e}' for e in errors)}  {'ok' if right else 'WRONG'}", flush=True)
    return right


def both(attention: Any, arrays: Any, backward: bool) -> Any:
    """Result, logarithms of sums and the three gradients."""
    q, k, v, d_out, d_lse = arrays
    if not backward:
        return attention(q, k, v)
    results, pull = jax.vjp(attention, q, k, v)
    return *results, *pull((d_out.astype(results[0].dtype), d_lse))


def reference(
    q: jax.Array, k: jax.Array, v: jax.Array, segments: Any, causal: bool, window: int | None
) -> tuple[jax.Array, jax.Array]:
    """In float32, as `attention` defines it."""
    shared = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(x, shared, axis=2) for x in (k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, precision="highest") * q.shape[3] ** -0.5
    query, key = jnp.arange(q.shape[1])[:, None], jnp.arange(k.shape[1])[None]
    seen = jnp.ones(scores.shape, bool)
    if causal:
        seen &= key <= query
    if window is not None:
        seen &= key > query - window
    if segments is not None:
        seen &= (segments[0][:, :, None] == segments[1][:, None, :])[:, None]
    scores = jnp.where(seen, scores, -jnp.inf)
    out = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v, precision="highest")
    return out, jax.nn.logsumexp(scores, axis=-1)


if __name__ == "__main__":
    sys.exit(main())
