"""Flash attention, forward, on Hopper: warp-specialised and persistent.

One warpgroup copies queries, keys and values. Each of the others owns some queries. In every step it begins the
scores of the next block of keys and, behind them, the product of this block's weights with the values; the softmax
of the next block runs beside the second product. Warpgroups take turns in beginning, so that the softmax of one
also runs beside the products of another.
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
from typedpallas.kernels.gpu.attention_tuning import AttentionTuning, Work, default, schedule
from typedpallas.kernels.gpu.device import multiprocessors
from typedpallas.launching.errors import LaunchError
from typedpallas.launching.mesh_kernel import Mesh, MeshKernel, kernel

_REGISTERS = {1: (240, 40), 2: (232, 40), 3: (160, 32)}
"""Registers of a thread that computes and of one that copies, by the number of warpgroups that compute."""


def attention_kernel[
    T: tp.Float,
    B: Dim,
    H: Dim,
    HK: Dim,
    NQ: Dim,
    NK: Dim,
    D: Multiple[L[64]],
    BLOCKS: Dim,
    TURNS: Dim,
    G: Dim,
    BQ: Multiple[L[64]],
    BK: Multiple[L[64]],
    S: Dim,
](
    q: In[GMEM, T, B, NQ, H, D],
    k: In[GMEM, T, B, NK, HK, D],
    v: In[GMEM, T, B, NK, HK, D],
    turns: In[GMEM, i32, BLOCKS, TURNS, L[2]],
    out: Out[GMEM, T, B, NQ, H, D],
    lse: Out[GMEM, f32, B, H, NQ],
    q_slots: Scratch[SMEM, T, G, BQ, D],
    out_slots: Scratch[SMEM, T, G, BQ, D],
    lse_slots: Scratch[SMEM, f32, G, BQ],
    k_slots: Scratch[SMEM, T, S, BK, D],
    v_slots: Scratch[SMEM, T, S, BK, D],
    q_filled: Scratch[Barrier, G],
    q_freed: Scratch[Barrier, G],
    k_filled: Scratch[Barrier, S],
    k_freed: Scratch[Barrier, S],
    v_filled: Scratch[Barrier, S],
    v_freed: Scratch[Barrier, S],
    go: Scratch[Barrier, G],
    *,
    work: Work,
    tuning: AttentionTuning,
    scale: float,
) -> None:
    """All tiles of queries of one block, in the order of its row of ``turns``."""
    refs = _Refs(q, k, v, turns, out, lse, q_slots, out_slots, lse_slots, k_slots, v_slots, go)
    rings = (Ring((k_slots,), k_filled, k_freed, tuning.stages), Ring((v_slots,), v_filled, v_freed, tuning.stages))
    block = _Block(refs, *rings, q_filled, q_freed, work, tuning, scale * math.log2(math.e))
    group = lax.axis_index("warpgroup")
    compute, copy = _REGISTERS[tuning.groups]

    @pl.when(group < tuning.groups)
    def _() -> None:
        plgpu.set_max_registers(compute, action="increase")
        block.compute(group)

    @pl.when(group == tuning.groups)
    def _() -> None:
        plgpu.set_max_registers(copy, action="decrease")
        block.copy()


@dataclass(frozen=True)
class _Refs:
    q: Any
    k: Any
    v: Any
    turns: Any
    out: Any
    lse: Any
    q_slots: Any
    out_slots: Any
    lse_slots: Any
    k_slots: Any
    v_slots: Any
    go: Any


@dataclass(frozen=True)
class _Place:
    """One tile of queries."""

    batch: Any
    head: Any
    tile: Any
    steps: Any


@dataclass(frozen=True)
class _Block:
    """One block. ``scale`` of the scores is in units of log2."""

    refs: _Refs
    keys: Ring
    values: Ring
    q_filled: Any
    q_freed: Any
    work: Work
    tuning: AttentionTuning
    scale: float

    def each_tile(self, do: Any) -> None:
        """Run ``do(place, turn, step)`` for every tile; ``step`` is how many blocks of keys came before."""
        row = lax.axis_index("block")

        def more(carry: Any) -> Any:
            return carry[0] >= 0

        def body(carry: Any) -> Any:
            number, steps, turn, step = carry
            following = tuple(self.refs.turns[row, turn + 1, i] for i in (0, 1))
            heads = self.refs.q.shape[2]
            both, tile = lax.div(number, self.work.tiles), lax.rem(number, self.work.tiles)
            do(_Place(lax.div(both, heads), lax.rem(both, heads), tile, steps), turn, step)
            return *following, turn + 1, step + steps

        first = tuple(self.refs.turns[row, 0, i] for i in (0, 1))
        lax.while_loop(more, body, (*first, jnp.int32(0), jnp.int32(0)))

    def copy(self) -> None:
        """The warpgroup that copies: one block of keys ahead of the values."""
        refs, block_k, block_q = self.refs, self.tuning.block_k, self.tuning.block_q
        shared = refs.q.shape[2] // refs.k.shape[2]

        def tile(place: _Place, turn: Any, before: Any) -> None:
            head = lax.div(place.head, shared)

            def source(array: Any, step: Any) -> Any:  # the last keys first
                return array.at[place.batch, pl.ds((place.steps - 1 - step) * block_k, block_k), head]

            self.keys.fill(before, source(refs.k, 0))
            for group in range(self.tuning.groups):
                pl.when(turn > 0)(functools.partial(plgpu.barrier_wait, self.q_freed.at[group]))
                first = place.tile * self.tuning.tile + group * block_q
                queries = refs.q.at[place.batch, pl.ds(first, block_q), place.head]
                plgpu.copy_gmem_to_smem(queries, refs.q_slots.at[group], self.q_filled.at[group])

            def following(step: Any, _: None) -> None:
                self.keys.fill(before + step, source(refs.k, step))
                self.values.fill(before + step - 1, source(refs.v, step - 1))

            lax.fori_loop(1, place.steps, following, None)
            self.values.fill(before + place.steps - 1, source(refs.v, place.steps - 1))

        self.each_tile(tile)

    def compute(self, group: Any) -> None:
        """A warpgroup that computes."""
        queries, keys, head_dim = self.tuning.block_q, self.tuning.block_k, self.refs.q.shape[3]
        if self.tuning.take_turns:
            pl.when(group == self.tuning.groups - 1)(lambda: plgpu.barrier_arrive(self.refs.go.at[0]))

        def tile(place: _Place, _: Any, before: Any) -> None:
            pl.run_scoped(
                lambda scores, sums: _Tile(self, group, place, before, scores, sums).run(),
                plgpu.WGMMAAccumulatorRef((queries, keys), jnp.float32),
                plgpu.WGMMAAccumulatorRef((queries, head_dim), jnp.float32),
            )

        self.each_tile(tile)
        plgpu.wait_smem_to_gmem(0)


@dataclass(frozen=True)
class _Tile:
    """The queries of one warpgroup: ``scores`` and ``sums`` are accumulators."""

    block: _Block
    group: Any
    place: _Place
    before: Any
    scores: Any
    sums: Any

    def run(self) -> None:
        """All blocks of keys, the last first."""
        block, place, before = self.block, self.place, self.before
        plgpu.barrier_wait(block.q_filled.at[self.group])
        plgpu.wgmma(self.scores, self._queries, block.keys.take(before).transpose((1, 0)))
        scores = self._masked(self.scores[...], 0)
        block.keys.give_back(before)
        highest = fold(jnp.maximum, scores).max(axis=1) * block.scale
        weights = jnp.exp2(scores * block.scale - rows(highest, scores))
        state = (weights.astype(block.refs.v.dtype), highest, fold(jnp.add, weights))
        last_masked: Any = 1
        if block.work.causal and block.tuning.masked > 1:
            last_masked = lax.min(place.steps, block.tuning.masked)
            state = lax.fori_loop(1, last_masked, functools.partial(self._step, True), state)
        weights, highest, total = lax.fori_loop(last_masked, place.steps, functools.partial(self._step, False), state)
        plgpu.barrier_arrive(block.q_freed.at[self.group])
        last = before + place.steps - 1
        plgpu.wgmma(self.sums, weights, block.values.take(last))
        sums = self.sums[...]
        block.values.give_back(last)
        self._store(sums, highest, total.sum(axis=1))

    @property
    def _queries(self) -> Any:
        return self.block.refs.q_slots.at[self.group]

    def _step(self, masked: bool, step: Any, state: Any) -> Any:
        """Scores of block ``step`` and their softmax, beside the product of the weights before with their values."""
        block, now = self.block, self.before + step
        weights, before, total = state
        keys = block.keys.take(now)
        self.scores[...] = zeros(self.scores.shape)
        if block.tuning.take_turns:
            plgpu.barrier_wait(block.refs.go.at[self.group])
        plgpu.wgmma(self.scores, self._queries, keys.transpose((1, 0)))
        plgpu.wgmma(self.sums, weights, block.values.take(now - 1))
        if block.tuning.take_turns:
            plgpu.barrier_arrive(block.refs.go.at[lax.rem(self.group + 1, block.tuning.groups)])
        scores = plgpu.wgmma_accumulator_load(self.scores, wait_n=1)
        block.keys.give_back(now)
        if masked:
            scores = self._masked(scores, step)
        highest = jnp.maximum(before, fold(jnp.maximum, scores).max(axis=1) * block.scale)
        new = jnp.exp2(scores * block.scale - rows(highest, scores))
        shrink = jnp.exp2(before - highest)
        total = total * rows(shrink, total) + fold(jnp.add, new)
        new, total = lax.optimization_barrier((new, total))
        sums = plgpu.wgmma_accumulator_load(self.sums, wait_n=0)
        block.values.give_back(now - 1)
        # Converted only now: an operand of a product may not be written while products are in flight. Without the
        # barrier the compiler carries the weights as float32, in twice the registers.
        weights = lax.optimization_barrier(new.astype(weights.dtype))
        self.sums[...] = sums * rows(shrink, sums)
        return weights, highest, total

    def _masked(self, scores: jax.Array, step: Any) -> jax.Array:
        block = self.block
        if not block.work.causal:
            return scores
        first_query = self.place.tile * block.tuning.tile + self.group * block.tuning.block_q
        first_key = (self.place.steps - 1 - step) * block.tuning.block_k
        query, key = (numbers(scores.shape, axis) for axis in (0, 1))
        last = rows(query + (first_query - first_key), scores)
        return jnp.where(columns(key, scores) <= last, scores, MASKED)

    def _store(self, sums: jax.Array, highest: jax.Array, total: jax.Array) -> None:
        refs, block_q = self.block.refs, self.block.tuning.block_q
        first = self.place.tile * self.block.tuning.tile + self.group * block_q
        out, lse = refs.out_slots.at[self.group], refs.lse_slots.at[self.group]
        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        out[...] = (sums * rows(1 / total, sums)).astype(out.dtype)
        lse[...] = (highest + jnp.log2(total)) * math.log(2)
        plgpu.commit_smem()
        queries = pl.ds(first, block_q)
        plgpu.copy_smem_to_gmem(out, refs.out.at[self.place.batch, queries, self.place.head])
        plgpu.copy_smem_to_gmem(lse, refs.lse.at[self.place.batch, self.place.head, queries])


def launch(q: Any, k: Any, *, causal: bool, scale: float, tuning: AttentionTuning) -> tuple[MeshKernel, Any]:
    """The kernel for arrays like these, and its ``turns``.

    Raises:
        LaunchError: the blocks do not divide the lengths, or the heads do not fit.
    """
    (batch, queries, heads, head_dim), (_, keys, kv_heads, _) = q.shape, k.shape
    tuning.check(queries, keys)
    if heads % kv_heads:
        raise LaunchError(f"flash attention: {kv_heads} heads of keys do not divide {heads} heads of queries")
    work = Work(
        batch * heads, queries, keys, tuning.tile, tuning.block_k, causal, 2 * keys * head_dim * q.dtype.itemsize
    )
    blocks = min(multiprocessors(), work.heads * work.tiles)
    body = functools.partial(attention_kernel, work=work, tuning=tuning, scale=scale)
    run = kernel(
        body,
        Mesh(grid={"block": blocks}, threads={"warpgroup": tuning.groups + 1}),
        dims={"G": tuning.groups, "BQ": tuning.block_q, "BK": tuning.block_k, "S": tuning.stages},
        arrivals={"k_freed": tuning.groups, "v_freed": tuning.groups},
        compiler_params=plgpu.CompilerParams(approx_math=True, unsafe_no_auto_barriers=True),
    )
    return run, jnp.asarray(schedule(work, blocks))


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    causal: bool = False,
    scale: float | None = None,
    tuning: AttentionTuning | None = None,
) -> tuple[jax.Array, jax.Array]:
    """``softmax(scale q k^T) v`` and the logarithm of each row's sum of exponentials, on a Hopper GPU.

    Args:
        q: float16 or bfloat16, shape ``(batch, queries, heads, head_dim)``.
        k: the same type, shape ``(batch, keys, kv_heads, head_dim)``; ``kv_heads`` divides ``heads``.
        v: as ``k``.
        causal: query ``i`` sees the keys ``0 .. i``.
        scale: factor of the scores; unless given, ``head_dim ** -0.5``.
        tuning: unless given, what is fastest on an H200.

    Returns:
        The shape and type of ``q``; float32, shape ``(batch, heads, queries)``.
    """
    chosen = tuning or default(q.shape[1], k.shape[1], q.shape[3], causal)
    factor = q.shape[3] ** -0.5 if scale is None else scale
    run, turns = launch(q, k, causal=causal, scale=factor, tuning=chosen)
    out: jax.Array
    lse: jax.Array
    out, lse = run(q, k, v, turns)
    return out, lse
