"""Attention of batches that mix prefill and decoding to keys and values in pages, each sequence causal in itself.

Sequences have any number of new queries, one after the other in one array. A step of the grid serves one sequence
within one tile of queries, so that a tile that several share is visited for each of them and every visit stores its
own rows. Tables of steps, pages and lengths are prefetched into scalar memory; pages are copied into one of two slots
while the other is worked on, as many as the step's queries see.
"""

import functools
from collections.abc import Iterator
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import Dim, In, Out, Scratch, f32, i32, tpu
from typedpallas.kernels import costs
from typedpallas.kernels.tpu import blocks, grouped_steps, ragged_by_grid
from typedpallas.kernels.tpu.ragged_part import Part
from typedpallas.tpu import DMA, HBM, SMEM, VMEM

_ROWS = 256
"""Rows of scores that one step works on, unless all are fewer: queries times the heads that share keys."""
_TOKENS = 256
"""Keys of one slot, unless pages are larger."""
_TILE = 16
"""Rows of a tile of bfloat16."""


def ragged_paged_attention_kernel[
    T: tp.Float,
    W: Dim,
    S: Dim,
    N: Dim,
    HK: Dim,
    P: Dim,
    PAGE: Dim,
    R: Dim,
    D: Dim,
    ROWS: Dim,
](
    tiles: In[SMEM, i32, W],
    sequences: In[SMEM, i32, W],
    starts: In[SMEM, i32, W],
    ends: In[SMEM, i32, W],
    lengths: In[SMEM, i32, S],
    tables: In[SMEM, i32, S, N],
    q: In[VMEM, T, R, D],
    k: In[HBM, T, HK, P, PAGE, D],
    v: In[HBM, T, HK, P, PAGE, D],
    out: Out[VMEM, T, R, D],
    k_slots: Scratch[VMEM, T, L[2], ROWS, D],
    v_slots: Scratch[VMEM, T, L[2], ROWS, D],
    arrived: Scratch[DMA, L[2], L[2]],
    highest: Scratch[VMEM, f32, R, L[1]],
    total: Scratch[VMEM, f32, R, L[1]],
    mean: Scratch[VMEM, f32, R, D],
    *,
    group: int,
    scale: float,
    window: int | None,
) -> None:
    """One sequence within one tile: ``R`` rows, ``group`` of them (heads that share one of keys) for each query."""
    head, step = pl.program_id(0), pl.program_id(1)
    sequence, page, rows = sequences[step], k.shape[2], k_slots.shape[1]
    length = lengths[sequence]
    part = Part(step, tiles, starts, ends, length, q.shape[0], group, window)
    first, end = part.turns(rows)

    def copies(turn: jax.Array, slot: jax.Array) -> Iterator[tpu.Copy]:
        """Of the pages of a slot. Behind the sequence's last page, that one is copied again, and nothing sees it."""
        for n in range(rows // page):
            place = jnp.minimum(turn * (rows // page) + n, lax.div(length - 1, page))
            at, to = tables[sequence, place], pl.ds(n * page, page)
            yield tpu.make_async_copy(k.at[head, at], k_slots.at[slot, to], arrived.at[0, slot])
            yield tpu.make_async_copy(v.at[head, at], v_slots.at[slot, to], arrived.at[1, slot])

    def start(turn: jax.Array) -> None:
        for copy in copies(turn, lax.rem(turn, 2)):
            copy.start()

    pl.when(first < end)(functools.partial(start, first))
    part.clear(highest, total, mean)

    @pl.loop(first, end)
    def _(turn: jax.Array) -> None:
        slot = lax.rem(turn, 2)
        pl.when(turn + 1 < end)(functools.partial(start, turn + 1))
        for copy in copies(turn, slot):
            copy.wait()
        part.attend(turn * rows, q[...], (k_slots[slot], v_slots[slot]), (highest, total, mean), scale)

    part.store((total, mean), out)


def ragged_paged_attention(
    q: jax.Array,
    k_pages: jax.Array,
    v_pages: jax.Array,
    tables: jax.Array,
    lengths: jax.Array,
    cu_q_lens: jax.Array,
    *,
    window: int | None = None,
    scale: float | None = None,
    block: int | None = None,
    pages_per_step: int | None = None,
    by_grid: bool | None = None,
    interpret: Any = None,
) -> jax.Array:
    """``softmax(scale q k^T) v`` for the last queries of each sequence, any number; each sees what is before.

    Args:
        q: float32 or bfloat16, shape ``(tokens, heads, head_dim)``: the queries of each sequence, one sequence after
            the other. TPU v2 and v3 multiply float32 alone.
        k_pages: the same type, shape ``(kv_heads, pages, page_size, head_dim)``; ``kv_heads`` divides ``heads``.
        v_pages: as ``k_pages``.
        tables: int32, shape ``(sequences, pages of the longest)``: the pages of each sequence, in order; those that
            ``lengths`` covers are in ``0 .. pages - 1``, the others are not looked at.
        lengths: int32, shape ``(sequences,)``: keys of each sequence, those of its queries included, which are its
            last; at most what its table holds.
        cu_q_lens: int32, shape ``(sequences + 1,)``: where the queries of each sequence begin; 0 first, the end of
            the last sequence's, at most ``tokens``, last. A sequence may have no queries.
        window: a query sees the last ``window`` keys alone, itself included.
        scale: factor of the scores; unless given, ``head_dim ** -0.5``.
        block: queries of one tile, a multiple of 16, or all. Unless given, some 256 over the heads that share keys.
        pages_per_step: pages of one slot; unless given, some 256 keys.
        by_grid: have the grid copy the pages, one a step. Unless given, on TPU v2 and v3, which take nothing else.
        interpret: as `tp.pallas_call` takes it; unless given, what is needed where no TPU is.

    Returns:
        The shape and type of ``q``; zeros for tokens of no sequence. Scores and sums are float32.

    Raises:
        LaunchError: shapes or types do not fit each other.
    """
    _check(q, k_pages, v_pages, tables, lengths, cu_q_lens)
    for what, count in (("window", window), ("block", block), ("pages_per_step", pages_per_step)):
        if count is not None and count < 1:
            raise tp.LaunchError(f"ragged_paged_attention: `{what}`: expected at least 1, found {count}")
    (tokens, heads, dim), (kv_heads, _, page, _) = q.shape, k_pages.shape
    group = heads // kv_heads
    size = block or blocks.partial(tokens, max(_ROWS // group // _TILE * _TILE, _TILE), _TILE)
    steps = grouped_steps.by_rows(jnp.diff(cu_q_lens), tokens, size)
    rows = q.reshape(tokens, kv_heads, group, dim).swapaxes(0, 1).reshape(kv_heads, tokens * group, dim)
    options: dict[str, Any] = {
        "group": group,
        "scale": dim**-0.5 if scale is None else scale,
        "window": window,
    }
    more = {
        "cost_estimate": costs.paged(q, k_pages, tables, *steps, lengths),
        "interpret": blocks.interpreter(interpret),
    }
    shape = jax.ShapeDtypeStruct(rows.shape, q.dtype)
    if ragged_by_grid.needed() if by_grid is None else by_grid:
        run = ragged_by_grid.call(
            shape, k_pages.shape, steps.tiles.size, tables.shape[1], size * group, options, more
        )
    else:
        count = pages_per_step or max(1, min(_TOKENS // page, tables.shape[1]))
        run = _call(shape, steps.tiles.size, size * group, count * page, options, more)
    result: jax.Array = run(*steps, lengths, tables, rows, k_pages, v_pages)
    return result.reshape(kv_heads, tokens, group, dim).swapaxes(0, 1).reshape(q.shape)


def _call(
    q: jax.ShapeDtypeStruct, steps: int, rows: int, keys: int, options: dict[str, Any], more: dict[str, Any]
) -> Any:
    """The kernel for queries of this shape and type, ``rows`` of them in a tile and ``keys`` in a slot."""
    heads, _, dim = q.shape
    own = pl.BlockSpec((None, rows, dim), lambda h, s, tiles, *_: (h, tiles[s], 0))
    whole = pl.BlockSpec(memory_space=pltpu.HBM)
    slots = pltpu.VMEM((2, keys, dim), q.dtype)
    return tp.pallas_call(
        functools.partial(ragged_paged_attention_kernel, **options),
        q,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=6,
            grid=(heads, steps),
            in_specs=[own, whole, whole],
            out_specs=own,
            scratch_shapes=[
                slots,
                slots,
                pltpu.SemaphoreType.DMA((2, 2)),
                *(pltpu.VMEM((rows, size), jnp.float32) for size in (1, 1, dim)),
            ],
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        **more,
    )


def _check(q: Any, k: Any, v: Any, tables: Any, lengths: Any, cu_q_lens: Any) -> None:
    name = "ragged_paged_attention"
    if q.ndim != 3 or k.ndim != 4 or k.shape != v.shape or q.shape[2] != k.shape[3]:
        raise tp.LaunchError(
            f"{name}: expected (tokens, heads, head_dim) and (kv_heads, pages, page_size, head_dim), found shapes "
            f"{q.shape}, {k.shape} and {v.shape}"
        )
    if q.dtype not in (jnp.float32, jnp.bfloat16) or q.dtype != k.dtype or q.dtype != v.dtype:
        raise tp.LaunchError(f"{name}: expected float32 or bfloat16, found {q.dtype}, {k.dtype} and {v.dtype}")
    if q.shape[1] % k.shape[0]:
        raise tp.LaunchError(f"{name}: {k.shape[0]} heads of keys do not divide {q.shape[1]} heads of queries")
    if tables.ndim != 2 or lengths.shape != tables.shape[:1] or cu_q_lens.shape != (tables.shape[0] + 1,):
        raise tp.LaunchError(
            f"{name}: expected the table and the length of each sequence and one entry more of `cu_q_lens`, found "
            f"shapes {tables.shape}, {lengths.shape} and {cu_q_lens.shape}"
        )
    if any(x.dtype != jnp.int32 for x in (tables, lengths, cu_q_lens)):
        found = f"{tables.dtype}, {lengths.dtype} and {cu_q_lens.dtype}"
        raise tp.LaunchError(f"{name}: expected int32 tables, lengths and `cu_q_lens`, found {found}")
