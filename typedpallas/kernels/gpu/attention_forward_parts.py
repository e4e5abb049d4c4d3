"""What the blocks and warpgroups of the forward attention do; `attention` has the kernel itself."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from typedpallas.kernels.gpu.attention_parts import MASKED, Ring, fold, rows, visible, zeros
from typedpallas.kernels.gpu.attention_tuning import AttentionTuning, Work


@dataclass(frozen=True)
class Refs:
    """The arrays and what lies in shared memory. ``q_ids`` and ``k_ids`` are segments, or none."""

    q: Any
    k: Any
    v: Any
    turns: Any
    out: Any
    lse: Any
    q_slots: Any
    out_slots: Any
    lse_slots: Any
    go: Any
    q_ids: Any = None
    k_ids: Any = None
    q_id_slots: Any = None


@dataclass(frozen=True)
class Place:
    """One tile of queries."""

    batch: Any
    head: Any
    first: Any
    """The first query."""
    steps: Any
    end: Any
    """The block of keys after the last that the tile sees."""


@dataclass(frozen=True)
class Block:
    """One block. ``scale`` of the scores is in units of log2."""

    refs: Refs
    keys: Ring
    values: Ring
    q_filled: Any
    q_freed: Any
    work: Work
    tuning: AttentionTuning
    scale: float

    def each_tile(self, do: Any) -> Any:
        """Run ``do(place, turn, step)`` for every tile; ``step`` is how many blocks of keys came before.

        Where there is a block for each tile, nobody looks into ``turns``: that would take longer than a step.

        Returns:
            How many blocks of keys there were in all.
        """
        row = lax.axis_index("block")
        if self.work.heads * self.work.tiles == lax.axis_size("block"):
            place = self._place(row, *self.work.seen(lax.rem(row, self.work.tiles)))
            do(place, jnp.int32(0), jnp.int32(0))
            return place.steps

        def more(carry: Any) -> Any:
            return carry[0] >= 0

        def body(carry: Any) -> Any:
            number, steps, end, turn, step = carry
            following = tuple(self.refs.turns[row, turn + 1, i] for i in (0, 1, 2))
            do(self._place(number, steps, end), turn, step)
            return *following, turn + 1, step + steps

        first = tuple(self.refs.turns[row, 0, i] for i in (0, 1, 2))
        return lax.while_loop(more, body, (*first, jnp.int32(0), jnp.int32(0)))[-1]

    def _place(self, number: Any, steps: Any, end: Any) -> Place:
        """The tile of a number, as `Work.order` counts them."""
        heads = self.refs.q.shape[2]
        both, tile = lax.div(number, self.work.tiles), lax.rem(number, self.work.tiles)
        first = tile * self.work.tile
        if self.tuning.peers:
            first += lax.axis_index(self.tuning.peers) * self.tuning.tile
        return Place(lax.div(both, heads), lax.rem(both, heads), first, steps, end)

    def copy(self) -> None:
        """The warpgroup that copies: one block of keys ahead of the values."""
        refs, block_k, block_q = self.refs, self.tuning.block_k, self.tuning.block_q
        shared = refs.q.shape[2] // refs.k.shape[2]

        def tile(place: Place, turn: Any, before: Any) -> None:
            head = lax.div(place.head, shared)

            def source(step: Any) -> Any:  # the last keys first
                return pl.ds((place.end - 1 - step) * block_k, block_k)

            def keys(step: Any) -> tuple[Any, ...]:
                ids = () if refs.k_ids is None else (refs.k_ids.at[place.batch, source(step)],)
                return refs.k.at[place.batch, source(step), head], *ids

            def values(step: Any) -> Any:
                return refs.v.at[place.batch, source(step), head]

            self.keys.fill(before, *keys(0))
            for group in range(self.tuning.groups):
                pl.when(turn > 0)(functools.partial(plgpu.barrier_wait, self.q_freed.at[group]))
                first = place.first + group * block_q
                queries = refs.q.at[place.batch, pl.ds(first, block_q), place.head]
                plgpu.copy_gmem_to_smem(queries, refs.q_slots.at[group], self.q_filled.at[group])
                if refs.q_ids is not None:
                    ids = refs.q_ids.at[place.batch, pl.ds(first, block_q)]
                    plgpu.copy_gmem_to_smem(ids, refs.q_id_slots.at[group], self.q_filled.at[group])

            def following(step: Any, _: None) -> None:
                self.keys.fill(before + step, *keys(step))
                self.values.fill(before + step - 1, values(step - 1))

            lax.fori_loop(1, place.steps, following, None)
            self.values.fill(before + place.steps - 1, values(place.steps - 1))

        steps = self.each_tile(tile)
        if self.tuning.paired:
            self.keys.drain(steps)
            self.values.drain(steps)

    def compute(self, group: Any) -> None:
        """A warpgroup that computes."""
        queries, keys, head_dim = self.tuning.block_q, self.tuning.block_k, self.refs.q.shape[3]
        if self.tuning.take_turns:
            pl.when(group == self.tuning.groups - 1)(lambda: plgpu.barrier_arrive(self.refs.go.at[0]))

        def tile(place: Place, _: Any, before: Any) -> None:
            pl.run_scoped(
                lambda scores, sums: Tile(self, group, place, before, scores, sums).run(),
                plgpu.WGMMAAccumulatorRef((queries, keys), jnp.float32),
                plgpu.WGMMAAccumulatorRef((queries, head_dim), jnp.float32),
            )

        self.each_tile(tile)
        plgpu.wait_smem_to_gmem(0)


@dataclass(frozen=True)
class Tile:
    """The queries of one warpgroup: ``scores`` and ``sums`` are accumulators."""

    block: Block
    group: Any
    place: Place
    before: Any
    scores: Any
    sums: Any

    def run(self) -> None:
        """All blocks of keys, the last first."""
        block, place, before = self.block, self.place, self.before
        plgpu.barrier_wait(block.q_filled.at[self.group])
        keys, ids = self._taken(before)
        plgpu.wgmma(self.scores, self._queries, keys.transpose((1, 0)))
        scores = self._masked(self.scores[...], 0, ids)
        block.keys.give_back(before)
        highest = fold(jnp.maximum, scores).max(axis=1) * block.scale
        weights = jnp.exp2(scores * block.scale - rows(highest, scores))
        state = (weights.astype(block.refs.v.dtype), highest, fold(jnp.add, weights))
        masked: Any = 1
        if self._everywhere:
            masked = place.steps
        elif block.work.causal and block.tuning.masked > 1:
            masked = lax.min(place.steps, block.tuning.masked)
        if self._everywhere or (block.work.causal and block.tuning.masked > 1):
            state = lax.fori_loop(1, masked, functools.partial(self._step, True), state)
        if not self._everywhere:
            state = lax.fori_loop(masked, place.steps, functools.partial(self._step, False), state)
        weights, highest, total = state
        plgpu.barrier_arrive(block.q_freed.at[self.group])
        last = before + place.steps - 1
        plgpu.wgmma(self.sums, weights, block.values.take(last))
        sums = self.sums[...]
        block.values.give_back(last)
        self._store(sums, highest, total.sum(axis=1))

    @property
    def _queries(self) -> Any:
        return self.block.refs.q_slots.at[self.group]

    @property
    def _everywhere(self) -> bool:
        """Whether every block of keys has some that queries may not see."""
        return self.block.work.window is not None or self.block.refs.k_ids is not None

    def _taken(self, now: Any) -> tuple[Any, Any]:
        """A block of keys and its segments, if there are any."""
        taken = self.block.keys.take(now)
        return (taken, None) if self.block.refs.k_ids is None else taken

    def _step(self, masked: bool, step: Any, state: Any) -> Any:
        """Scores of block ``step`` and their softmax, beside the product of the weights before with their values."""
        block, now = self.block, self.before + step
        weights, before, total = state
        keys, ids = self._taken(now)
        self.scores[...] = zeros(self.scores.shape)
        if block.tuning.take_turns:
            plgpu.barrier_wait(block.refs.go.at[self.group])
        plgpu.wgmma(self.scores, self._queries, keys.transpose((1, 0)))
        plgpu.wgmma(self.sums, weights, block.values.take(now - 1))
        if block.tuning.take_turns:
            plgpu.barrier_arrive(block.refs.go.at[lax.rem(self.group + 1, block.tuning.groups)])
        scores = plgpu.wgmma_accumulator_load(self.scores, wait_n=1)
        if masked:
            scores = self._masked(scores, step, ids)
        block.keys.give_back(now)
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

    def _masked(self, scores: jax.Array, step: Any, ids: Any) -> jax.Array:
        block = self.block
        if not (block.work.causal or self._everywhere):
            return scores
        first_query = self.place.first + self.group * block.tuning.block_q
        first_key = (self.place.end - 1 - step) * block.tuning.block_k
        segments = None if ids is None else (block.refs.q_id_slots.at[self.group], ids)
        seen = visible(scores.shape, first_query - first_key, block.work.causal, block.work.window, segments)
        return scores if seen is None else jnp.where(seen, scores, MASKED)

    def _store(self, sums: jax.Array, highest: jax.Array, total: jax.Array) -> None:
        refs, block_q = self.block.refs, self.block.tuning.block_q
        first = self.place.first + self.group * block_q
        out, lse = refs.out_slots.at[self.group], refs.lse_slots.at[self.group]
        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        out[...] = (sums * rows(1 / total, sums)).astype(out.dtype)
        lse[...] = (highest + jnp.log2(total)) * math.log(2)
        plgpu.commit_smem()
        queries = pl.ds(first, block_q)
        plgpu.copy_smem_to_gmem(out, refs.out.at[self.place.batch, queries, self.place.head])
        plgpu.copy_smem_to_gmem(lse, refs.lse.at[self.place.batch, self.place.head, queries])
