"""Attention of one new token over a paged cache: ours with several splits, JAX's Triton kernel, and XLA.

XLA gathers the pages first. Rates count the keys and values that the sequences have, once.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.gpu_timing import Entry, Problem
from typedpallas.kernels.gpu.decode import DecodeTuning, default, paged_attention

TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2}
SHAPES = ((64, 32, 8, 128, 64, 64), (8, 32, 8, 128, 64, 256), (64, 16, 16, 64, 128, 32))
"""Sequences, heads of queries, heads of keys, dims of a head, tokens of a page, most pages of a sequence."""


def problems(key: jax.Array, quick: bool) -> Iterator[tuple[str, Callable[[], Problem]]]:
    """By name."""
    for shape in SHAPES:
        for dtype in (jnp.float16, jnp.bfloat16):
            name = f"decode {jnp.dtype(dtype).name} ({','.join(map(str, shape))})"
            yield name, functools.partial(_problem, key, name, shape, dtype, quick)


def _problem(key: jax.Array, name: str, shape: tuple[int, ...], dtype: Any, quick: bool) -> Problem:
    batch, heads, kv_heads, head_dim, page, most = shape
    cache = (kv_heads, batch * most, page, head_dim)
    sizes = ((batch, heads, head_dim), cache, cache)
    keys = jax.random.split(key, 5)
    q, k, v = (
        jax.random.normal(one, size, jnp.float32).astype(dtype) for one, size in zip(keys, sizes, strict=False)
    )
    table = jax.random.permutation(keys[3], batch * most).astype(jnp.int32).reshape(batch, most)
    lengths = jax.random.randint(keys[4], (batch,), most * page // 2, most * page + 1)
    first = default(batch, kv_heads, most, page * head_dim)
    splits = dict.fromkeys((first.splits, *(() if quick else (1, 2, 4, 8))))
    ours = [_ours(replace(first, splits=n)) for n in splits if n <= most]
    work = 2.0 * int(lengths.sum()) * kv_heads * head_dim * q.dtype.itemsize
    arrays = (q * head_dim**-0.5, k, v, table, lengths)
    return Problem(
        name,
        arrays,
        (Entry("XLA", _plain, "vendor"), *_shipped(), *ours),
        _wide,
        TOLERANCE[q.dtype.name],
        work,
        "GB/s",
    )


def _ours(tuning: DecodeTuning) -> Entry:
    run = functools.partial(paged_attention, scale=1.0, tuning=tuning)
    return Entry(f"{tuning.splits} splits, {tuning.stages} stages", run, "ours")


def _plain(q: jax.Array, k: jax.Array, v: jax.Array, table: jax.Array, lengths: jax.Array) -> jax.Array:
    heads, page = k.shape[0], k.shape[2]
    keys, values = (x[:, table].reshape(heads, table.shape[0], -1, x.shape[3]) for x in (k, v))
    grouped = q.reshape(q.shape[0], heads, -1, q.shape[2])
    scores = jnp.einsum("bhgd,hbkd->bhgk", grouped, keys, preferred_element_type=jnp.float32)
    seen = jnp.arange(table.shape[1] * page)[None] < lengths[:, None]
    weights = jax.nn.softmax(jnp.where(seen[:, None, None], scores, -jnp.inf), axis=-1)
    out = jnp.einsum("bhgk,hbkd->bhgd", weights.astype(q.dtype), values, preferred_element_type=jnp.float32)
    return out.reshape(q.shape).astype(q.dtype)


def _wide(q: jax.Array, k: jax.Array, v: jax.Array, table: jax.Array, lengths: jax.Array) -> jax.Array:
    with jax.default_matmul_precision("highest"):
        return _plain(*(x.astype(jnp.float32) for x in (q, k, v)), table, lengths)


def _shipped() -> Iterator[Entry]:
    from jax.experimental.pallas.ops.gpu import paged_attention as shipped

    for splits in (4, 16):
        yield Entry(
            f"JAX's Triton, {splits} splits", functools.partial(shipped.paged_attention, k_splits=splits), "jax"
        )
