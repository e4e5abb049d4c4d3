"""Attention of one new query for each sequence to keys and values that lie in pages, for decoding.

Tables of pages and lengths are prefetched into scalar memory. A program serves one sequence and one head of keys: it
copies pages into one of two slots while it works on the other, as many as the sequence has. On TPU v2 and v3 it is
ragged attention by the grid.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import Dim, In, Out, Scratch, i32
from typedpallas.kernels import costs
from typedpallas.kernels.tpu import blocks, ragged_by_grid
from typedpallas.kernels.tpu.ragged_paged_attention import ragged_paged_attention
from typedpallas.tpu import DMA, HBM, SMEM, VMEM

_MASKED = -1e30
"""The score of a key that is not there: finite, so that no row's maximum is minus infinity."""
_BY_ROWS = (((1,), (1,)), ((), ()))
"""The product of a matrix with the transpose of another."""
_TOKENS = 256
"""Keys of one slot, unless pages are larger."""


def paged_attention_kernel[T: tp.Float, S: Dim, N: Dim, HK: Dim, P: Dim, PAGE: Dim, G: Dim, D: Dim, ROWS: Dim](
    tables: In[SMEM, i32, S, N],
    lengths: In[SMEM, i32, S],
    q: In[VMEM, T, G, D],
    k: In[HBM, T, HK, P, PAGE, D],
    v: In[HBM, T, HK, P, PAGE, D],
    out: Out[VMEM, T, G, D],
    k_slots: Scratch[VMEM, T, L[2], ROWS, D],
    v_slots: Scratch[VMEM, T, L[2], ROWS, D],
    arrived: Scratch[DMA, L[2], L[2]],
    *,
    scale: float,
    window: int | None,
) -> None:
    """One sequence, and the ``G`` heads of queries that share one head of keys."""
    sequence, head = pl.program_id(0), pl.program_id(1)
    length, rows = lengths[sequence], k_slots.shape[1]
    pages = _Pages(tables, sequence, head, lax.div(length - 1, k.shape[2]), k.shape[2])
    first = 0 if window is None else lax.div(jnp.maximum(length - window, 0), rows)
    end = lax.div(length + (rows - 1), rows)

    def start(step: Any, slot: Any) -> None:
        pages.start(step, k, k_slots.at[slot], arrived.at[0, slot])
        pages.start(step, v, v_slots.at[slot], arrived.at[1, slot])

    def one(step: Any, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        slot = lax.rem(step, 2)
        pl.when(step + 1 < end)(functools.partial(start, step + 1, 1 - slot))
        pages.wait(step, k, k_slots.at[slot], arrived.at[0, slot])
        pages.wait(step, v, v_slots.at[slot], arrived.at[1, slot])
        least = 0 if window is None else length - window
        return _attend(q[...], k_slots[slot], v_slots[slot], state, step * rows, (least, length), scale)

    pl.when(first < end)(functools.partial(start, first, lax.rem(first, 2)))
    column = jnp.zeros((q.shape[0], 1), jnp.float32)
    state = (column + _MASKED, column, jnp.zeros(q.shape, jnp.float32))
    _, total, mean = lax.fori_loop(first, end, one, state)
    out[...] = (mean / jnp.where(total == 0, 1, total)).astype(out.dtype)


@dataclass(frozen=True)
class _Pages:
    """The pages of one sequence. Beyond the last one, that one is copied again, and nothing sees it."""

    tables: Any
    sequence: Any
    head: Any
    last: Any
    size: int

    def start(self, step: Any, source: Any, slot: Any, arrived: Any) -> None:
        for copy in self._copies(step, source, slot, arrived):
            copy.start()

    def wait(self, step: Any, source: Any, slot: Any, arrived: Any) -> None:
        for copy in self._copies(step, source, slot, arrived):
            copy.wait()

    def _copies(self, step: Any, source: Any, slot: Any, arrived: Any) -> list[Any]:
        """Of the pages of a slot. ``step`` counts slots."""
        count = slot.shape[0] // self.size
        places = [jnp.minimum(step * count + n, self.last) for n in range(count)]
        return [
            pltpu.make_async_copy(
                source.at[self.head, self.tables[self.sequence, place]],
                slot.at[pl.ds(n * self.size, self.size)],
                arrived,
            )
            for n, place in enumerate(places)
        ]


def _attend(
    q: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    state: tuple[jax.Array, ...],
    start: Any,
    seen: tuple[Any, Any],
    scale: float,
) -> tuple[jax.Array, ...]:
    """The state after the keys at positions ``start`` and on; those from ``seen[0]`` up to ``seen[1]`` count."""
    highest, total, mean = state
    scores = lax.dot_general(q, keys, _BY_ROWS, preferred_element_type=jnp.float32) * (scale * math.log2(math.e))
    scores = jnp.where(_counts(scores.shape, 1, start, seen), scores, _MASKED)
    now = jnp.maximum(highest, scores.max(axis=1, keepdims=True))
    shrink, weights = jnp.exp2(highest - now), jnp.exp2(scores - now)
    # What lies behind a sequence's end may be anything, and zero times infinity is no number.
    values = jnp.where(_counts(values.shape, 0, start, seen), values, jnp.zeros_like(values))
    added = jnp.dot(weights.astype(values.dtype), values, preferred_element_type=jnp.float32)
    return now, total * shrink + weights.sum(axis=1, keepdims=True), mean * shrink + added


def _counts(shape: tuple[int, ...], axis: int, start: Any, seen: tuple[Any, Any]) -> jax.Array:
    positions = start + lax.broadcasted_iota(jnp.int32, shape, axis)
    counts: jax.Array = (positions >= seen[0]) & (positions < seen[1])
    return counts


def paged_attention(
    q: jax.Array,
    k_pages: jax.Array,
    v_pages: jax.Array,
    tables: jax.Array,
    lengths: jax.Array,
    *,
    window: int | None = None,
    scale: float | None = None,
    pages_per_step: int | None = None,
    interpret: Any = None,
) -> jax.Array:
    """``softmax(scale q k^T) v`` for one query of each sequence.

    Args:
        q: float32 or bfloat16, shape ``(sequences, heads, head_dim)``. TPU v2 and v3 multiply float32 alone.
        k_pages: the same type, shape ``(kv_heads, pages, page_size, head_dim)``; ``kv_heads`` divides ``heads``.
        v_pages: as ``k_pages``.
        tables: int32, shape ``(sequences, pages of the longest)``: the pages of each sequence, in order; those that
            ``lengths`` covers are in ``0 .. pages - 1``, the others are not looked at.
        lengths: int32, shape ``(sequences,)``: keys of each sequence, at most what its table holds. None gives zeros.
        window: the query sees the last ``window`` keys alone.
        scale: factor of the scores; unless given, ``head_dim ** -0.5``.
        pages_per_step: pages of one slot; unless given, some 256 keys.
        interpret: as `tp.pallas_call` takes it; unless given, what is needed where no TPU is.

    Returns:
        The shape and type of ``q``; scores and sums are float32.

    Raises:
        LaunchError: shapes or types do not fit each other.
    """
    _check(q, k_pages, v_pages, tables, lengths, window, pages_per_step)
    (sequences, heads, dim), (kv_heads, _, page, _) = q.shape, k_pages.shape
    count = pages_per_step or max(1, min(_TOKENS // page, tables.shape[1]))
    group = heads // kv_heads
    if ragged_by_grid.needed():
        begins = jnp.arange(sequences + 1, dtype=jnp.int32)
        return ragged_paged_attention(
            q, k_pages, v_pages, tables, lengths, begins, window=window, scale=scale, interpret=interpret
        )
    run = _call(
        (sequences, kv_heads, group, dim),
        q.dtype,
        count * page,
        functools.partial(paged_attention_kernel, scale=dim**-0.5 if scale is None else scale, window=window),
        costs.paged(q, k_pages, tables, lengths),
        blocks.interpreter(interpret),
    )
    result: jax.Array = run(tables, lengths, q.reshape(sequences, kv_heads, group, dim), k_pages, v_pages)
    return result.reshape(q.shape)


def _call(
    shape: tuple[int, ...], dtype: Any, rows: int, kernel: Callable[..., None], cost: pl.CostEstimate, interpret: Any
) -> Any:
    """The kernel for queries of this shape and type, and ``rows`` keys in a slot."""
    sequences, kv_heads, group, dim = shape
    own = pl.BlockSpec((None, None, group, dim), lambda i, h, tables, lengths: (i, h, 0, 0))
    whole = pl.BlockSpec(memory_space=pltpu.HBM)
    slots = pltpu.VMEM((2, rows, dim), dtype)
    return tp.pallas_call(
        kernel,
        jax.ShapeDtypeStruct(shape, dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(sequences, kv_heads),
            in_specs=[own, whole, whole],
            out_specs=own,
            scratch_shapes=[slots, slots, pltpu.SemaphoreType.DMA((2, 2))],
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        cost_estimate=cost,
        interpret=interpret,
    )


def _check(q: Any, k: Any, v: Any, tables: Any, lengths: Any, window: int | None, pages: int | None) -> None:
    name = "paged_attention"
    if q.ndim != 3 or k.ndim != 4 or k.shape != v.shape or q.shape[2] != k.shape[3]:
        raise tp.LaunchError(
            f"{name}: expected (sequences, heads, head_dim) and (kv_heads, pages, page_size, head_dim), found shapes "
            f"{q.shape}, {k.shape} and {v.shape}"
        )
    if q.dtype not in (jnp.float32, jnp.bfloat16) or q.dtype != k.dtype or q.dtype != v.dtype:
        raise tp.LaunchError(f"{name}: expected float32 or bfloat16, found {q.dtype}, {k.dtype} and {v.dtype}")
    if q.shape[1] % k.shape[0]:
        raise tp.LaunchError(f"{name}: {k.shape[0]} heads of keys do not divide {q.shape[1]} heads of queries")
    if tables.ndim != 2 or tables.shape[0] != q.shape[0] or lengths.shape != q.shape[:1]:
        raise tp.LaunchError(
            f"{name}: expected tables and lengths of {q.shape[0]} sequences, found shapes {tables.shape} and "
            f"{lengths.shape}"
        )
    if tables.dtype != jnp.int32 or lengths.dtype != jnp.int32:
        raise tp.LaunchError(f"{name}: expected int32 tables and lengths, found {tables.dtype} and {lengths.dtype}")
    for what, count in (("window", window), ("pages_per_step", pages)):
        if count is not None and count < 1:
            raise tp.LaunchError(f"{name}: `{what}`: expected at least 1, found {count}")
