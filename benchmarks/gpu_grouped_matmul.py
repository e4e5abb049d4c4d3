"""Grouped matrix products: ours, XLA's `jax.lax.ragged_dot` and JAX's Hopper kernel."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.gpu_timing import Entry, Problem
from typedpallas.kernels.gpu.grouped_matmul import grouped_matmul

TOLERANCE = {"float16": 1e-3, "bfloat16": 5e-3}
SHAPES = ((8192, 4096, 8192, 8), (16384, 2048, 2048, 64))
"""Rows, summed, columns, groups."""


def problems(key: jax.Array, quick: bool) -> Iterator[tuple[str, Callable[[], Problem]]]:
    """By name."""
    for shape in SHAPES:
        for dtype in (jnp.float16, jnp.bfloat16):
            name = f"grouped {jnp.dtype(dtype).name} ({','.join(map(str, shape))})"
            yield name, functools.partial(_problem, key, name, shape, dtype)


def _problem(key: jax.Array, name: str, shape: tuple[int, ...], dtype: Any) -> Problem:
    m, k, n, groups = shape
    keys = jax.random.split(key, 3)
    a, b = (
        jax.random.normal(one, s, jnp.float32).astype(dtype)
        for one, s in zip(keys[:2], ((m, k), (groups, k, n)), strict=True)
    )
    cuts = jnp.sort(jax.random.randint(keys[2], (groups - 1,), 0, m + 1))
    sizes = jnp.diff(cuts, prepend=0, append=m).astype(jnp.int32)
    entries = (
        Entry("jax.lax.ragged_dot", jax.lax.ragged_dot, "vendor"),
        *_shipped(),
        Entry("grouped_matmul", grouped_matmul, "ours"),
    )
    return Problem(name, (a, b, sizes), entries, _wide, TOLERANCE[jnp.dtype(dtype).name], 2.0 * m * k * n)


def _wide(a: jax.Array, b: jax.Array, sizes: jax.Array) -> jax.Array:
    group = jnp.searchsorted(jnp.cumsum(sizes), jnp.arange(a.shape[0]), side="right")
    out = jnp.zeros((a.shape[0], b.shape[2]), jnp.float32)
    for number in range(b.shape[0]):
        rows = jnp.where((group == number)[:, None], a, 0).astype(jnp.float32)
        out += jnp.dot(rows, b[number].astype(jnp.float32), precision="high")
    return out


def _shipped() -> Iterator[Entry]:
    from jax.experimental.pallas.ops.gpu import ragged_dot_mgpu as shipped

    def run(a: jax.Array, b: jax.Array, sizes: jax.Array) -> jax.Array:
        return shipped.ragged_dot(
            a, b, group_sizes=sizes, block_m=64, block_n=128, block_k=64, max_concurrent_steps=4, grid_block_n=8
        )

    yield Entry("JAX's 64x128x64, 4 steps", run, "jax")
