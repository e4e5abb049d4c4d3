"""Attention of one new token a sequence over a paged cache, on Hopper.

A block goes through some of the pages of one sequence for all heads of queries that share a head of keys: they are
the rows of one product. What several blocks find of one sequence is put together afterwards.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp
from typedpallas import Dim, In, Multiple, Out, Scratch, f32, i32
from typedpallas.gpu import GMEM, SMEM, Barrier
from typedpallas.kernels.gpu.attention_parts import MASKED, Ring, columns, fold, numbers, rows, zeros
from typedpallas.kernels.gpu.device import multiprocessors
from typedpallas.launching.errors import LaunchError
from typedpallas.launching.mesh_kernel import Mesh, MeshKernel, kernel

_ROWS = 64
"""Of one product: heads of queries that share a head of keys, and what is left over."""


@dataclass(frozen=True)
class DecodeTuning:
    """What changes the speed alone."""

    splits: int = 1
    """Blocks that share the pages of one sequence."""
    stages: int = 4
    """Slots of the rings of pages."""


def decode_kernel[
    T: tp.Float,
    B: Dim,
    HK: Dim,
    P: Dim,
    PS: Multiple[L[64]],
    D: Multiple[L[64]],
    N: Dim,
    X: Dim,
    R: Dim,
    S: Dim,
](
    q: In[GMEM, T, B, HK, L[64], D],
    k: In[GMEM, T, HK, P, PS, D],
    v: In[GMEM, T, HK, P, PS, D],
    table: In[GMEM, i32, B, N],
    lengths: In[GMEM, i32, B],
    out: Out[GMEM, f32, B, HK, X, R, D],
    lse: Out[GMEM, f32, B, HK, X, L[64]],
    q_slot: Scratch[SMEM, T, L[64], D],
    k_slots: Scratch[SMEM, T, S, PS, D],
    v_slots: Scratch[SMEM, T, S, PS, D],
    out_slot: Scratch[SMEM, f32, L[64], D],
    lse_slot: Scratch[SMEM, f32, L[64]],
    q_filled: Scratch[Barrier],
    k_filled: Scratch[Barrier, S],
    k_freed: Scratch[Barrier, S],
    v_filled: Scratch[Barrier, S],
    v_freed: Scratch[Barrier, S],
    *,
    tuning: DecodeTuning,
    scale: float,
) -> None:
    """Some pages of one sequence, for one head of keys."""
    keys = Ring((k_slots,), k_filled, k_freed, tuning.stages)
    values = Ring((v_slots,), v_filled, v_freed, tuning.stages)
    slots = (q_slot, out_slot, lse_slot)
    block = _Block(q, k, v, table, lengths, out, lse, slots, keys, values, q_filled, tuning, scale)
    group = lax.axis_index("warpgroup")
    pl.when(group == 0)(block.compute)
    pl.when(group == 1)(block.copy)


@dataclass(frozen=True)
class _Block:
    """One block. ``slots``: of queries, of results and of the logarithms of sums."""

    q: Any
    k: Any
    v: Any
    table: Any
    lengths: Any
    out: Any
    lse: Any
    slots: tuple[Any, Any, Any]
    keys: Ring
    values: Ring
    q_filled: Any
    tuning: DecodeTuning
    scale: float

    @property
    def place(self) -> tuple[Any, Any, Any]:
        """Sequence, head of keys and part of the pages."""
        return lax.axis_index("sequence"), lax.axis_index("head"), lax.axis_index("split")

    @property
    def page(self) -> int:
        """Tokens of one page."""
        return int(self.k.shape[2])

    def pages(self) -> tuple[Any, Any, Any]:
        """The first page of this block, how many it has, and the length of the sequence."""
        sequence, _, split = self.place
        length = self.lengths[sequence]
        count = lax.div(length + (self.page - 1), self.page)
        share = lax.div(count + (self.tuning.splits - 1), self.tuning.splits)
        first = split * share
        return first, lax.max(lax.min(count - first, share), 0), length

    def copy(self) -> None:
        """The warpgroup that copies."""
        sequence, head = self.place[:2]
        first, count = self.pages()[:2]
        plgpu.copy_gmem_to_smem(self.q.at[sequence, head], self.slots[0], self.q_filled)

        @pl.loop(0, count)
        def _(step: Any) -> None:
            page = self.table[sequence, first + step]
            self.keys.fill(step, self.k.at[head, page])
            self.values.fill(step, self.v.at[head, page])

    def compute(self) -> None:
        """The warpgroup that computes."""
        pl.run_scoped(
            self._compute,
            plgpu.WGMMAAccumulatorRef((_ROWS, self.page), jnp.float32),
            plgpu.WGMMAAccumulatorRef((_ROWS, self.q.shape[3]), jnp.float32),
        )
        plgpu.wait_smem_to_gmem(0)

    def _compute(self, scores: Any, sums: Any) -> None:
        first, count, length = self.pages()
        plgpu.barrier_wait(self.q_filled)
        column = functools.partial(plgpu.layout_cast, new_layout=plgpu.Layout.WGMMA.reduce(1))
        state = (column(jnp.full((_ROWS,), MASKED, jnp.float32)), column(jnp.zeros((_ROWS,), jnp.float32)))

        def step(number: Any, state: Any) -> Any:
            return self._step(scores, sums, number, length - (first + number) * self.page, state)

        highest, total = lax.fori_loop(0, count, step, state)
        sequence, head, split = self.place
        _, out, lse = self.slots
        found = sums[...]
        out[...] = found * rows(1 / jnp.maximum(total, 1e-30), found)
        lse[...] = (highest + jnp.log2(jnp.maximum(total, 1e-30))) * math.log(2)
        plgpu.commit_smem()
        stored = self.out.shape[3]
        plgpu.copy_smem_to_gmem(out.at[pl.ds(0, stored)], self.out.at[sequence, head, split])
        plgpu.copy_smem_to_gmem(lse, self.lse.at[sequence, head, split])

    def _step(self, scores: Any, sums: Any, number: Any, left: Any, state: Any) -> Any:
        """One page, of which ``left`` tokens are in the sequence."""
        highest, total = state
        scale = self.scale * math.log2(math.e)
        scores[...] = zeros(scores.shape)
        plgpu.wgmma(scores, self.slots[0], self.keys.take(number).transpose((1, 0)))
        found = scores[...]
        self.keys.give_back(number)
        seen = numbers(found.shape, 1) < left
        found = jnp.where(columns(seen, found), found, MASKED)
        now = jnp.maximum(highest, fold(jnp.maximum, found).max(axis=1) * scale)
        weights = jnp.exp2(found * scale - rows(now, found))
        shrink = jnp.exp2(highest - now)
        total = total * shrink + fold(jnp.add, weights).sum(axis=1)
        before = sums[...]
        sums[...] = before * rows(shrink, before)
        plgpu.wgmma(sums, weights.astype(self.v.dtype), self.values.take(number))
        plgpu.wgmma_wait(0)
        self.values.give_back(number)
        return now, total


def launch(shared: int, k: Any, batch: int, scale: float, tuning: DecodeTuning) -> MeshKernel:
    """Takes queries (in ``_ROWS`` rows, of which ``shared`` are heads), pages, table and lengths."""
    heads = k.shape[0]
    return kernel(
        functools.partial(decode_kernel, tuning=tuning, scale=scale),
        Mesh(grid={"split": tuning.splits, "head": heads, "sequence": batch}, threads={"warpgroup": 2}),
        dims={"X": tuning.splits, "R": -(-shared // 8) * 8, "S": tuning.stages},
        compiler_params=plgpu.CompilerParams(approx_math=True, unsafe_no_auto_barriers=True),
    )


def default(batch: int, kv_heads: int, pages: int, page_elements: int) -> DecodeTuning:
    """As many blocks as fill the GPU about twice. ``page_elements``: of one head in one page."""
    splits = max(1, min(pages, 2 * multiprocessors() // (batch * kv_heads)))
    return DecodeTuning(splits=splits, stages=2 if page_elements > 64 * 128 else 4)


def paged_attention(
    q: jax.Array,
    k_pages: jax.Array,
    v_pages: jax.Array,
    table: jax.Array,
    lengths: jax.Array,
    *,
    scale: float | None = None,
    tuning: DecodeTuning | None = None,
) -> jax.Array:
    """Attention of one token of each sequence over its pages, on a Hopper GPU.

    Args:
        q: float16 or bfloat16, shape ``(batch, heads, head_dim)``; heads of 64 or 128 dims.
        k_pages: the same type, shape ``(kv_heads, pages, page_size, head_dim)``; ``kv_heads`` divides ``heads``, at
            most 64 share one; pages of 64 or 128 tokens.
        v_pages: as ``k_pages``.
        table: int32, shape ``(batch, most)``: the pages of each sequence, in order. What lies past a sequence's
            length is not read.
        lengths: int32, shape ``(batch,)``: tokens of each sequence, at least 1.
        scale: factor of the scores; unless given, ``head_dim ** -0.5``.
        tuning: unless given, what fills the GPU.

    Returns:
        The shape and type of ``q``.

    Raises:
        LaunchError: heads or pages do not fit.
    """
    (batch, heads, head_dim), (kv_heads, _, page, _) = q.shape, k_pages.shape
    if heads % kv_heads or heads // kv_heads > _ROWS:
        raise LaunchError(f"paged_attention: {heads} heads of queries do not share {kv_heads} heads of keys")
    if page % 64 or page > 128 or head_dim not in (64, 128):
        raise LaunchError(
            f"paged_attention: expected pages of 64 or 128 and heads of 64 or 128, found {k_pages.shape}"
        )
    shared = heads // kv_heads
    chosen = tuning or default(batch, kv_heads, table.shape[1], page * head_dim)
    run = launch(shared, k_pages, batch, head_dim**-0.5 if scale is None else scale, chosen)
    grouped = q.reshape(batch, kv_heads, shared, head_dim)
    grouped = jnp.pad(grouped, ((0, 0), (0, 0), (0, _ROWS - shared), (0, 0)))
    parts, lse = run(grouped, k_pages, v_pages, table, lengths)
    weights = jax.nn.softmax(lse[..., :shared], axis=2)
    out: jax.Array = (parts[..., :shared, :] * weights[..., None]).sum(axis=2)
    return out.reshape(q.shape).astype(q.dtype)
