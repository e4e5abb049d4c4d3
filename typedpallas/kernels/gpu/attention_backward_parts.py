"""What the blocks and warpgroups of the backward attention do; `attention_backward` has the kernel itself."""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from typedpallas.kernels.gpu.attention_backward_refs import Slots, Whole
from typedpallas.kernels.gpu.attention_parts import Ring, columns, visible, zeros
from typedpallas.kernels.gpu.attention_tuning import BackwardTuning


@dataclass(frozen=True)
class Block:
    """One block of keys."""

    whole: Whole
    slots: Slots
    queries: Ring
    gradients: Ring
    kv_filled: Any
    tuning: BackwardTuning
    causal: bool
    window: int | None
    scale: float

    @property
    def everywhere(self) -> bool:
        """Whether every block of queries has some that see not all keys."""
        return self.window is not None or self.whole.k_ids is not None

    @property
    def keys(self) -> tuple[Any, Any, Any]:
        """The block's keys, as an index of the arrays."""
        size = self.tuning.block_k
        head = lax.div(lax.axis_index("head"), int(self.whole.d_k.shape[2]) // int(self.whole.k.shape[2]))
        return lax.axis_index("batch"), pl.ds(lax.axis_index("tile") * size, size), head

    @property
    def shared(self) -> int:
        """Heads of queries that this block goes through."""
        return int(self.whole.q.shape[2]) // int(self.whole.d_k.shape[2])

    @property
    def first(self) -> Any:
        """The first block of queries that sees any of the keys; the last one if none does."""
        if not self.causal:
            return 0
        last = int(self.whole.q.shape[1]) // self.tuning.block_q - 1
        return lax.min(lax.div(lax.axis_index("tile") * self.tuning.block_k, self.tuning.block_q), last)

    @property
    def count(self) -> Any:
        """Blocks of queries of one head."""
        blocks: Any = int(self.whole.q.shape[1]) // self.tuning.block_q
        if self.window is not None:
            last = lax.axis_index("tile") * self.tuning.block_k + (self.tuning.block_k + self.window - 2)
            blocks = lax.max(lax.min(lax.div(last, self.tuning.block_q) + 1, blocks), self.first + 1)
        return blocks - self.first

    def step(self, number: Any) -> Any:
        """The block of queries of a step."""
        if self.causal or not self.tuning.turn:
            return self.first + number
        return lax.rem(number + lax.axis_index("tile") * self.tuning.turn, self.count)

    def place(self, number: Any) -> tuple[Any, Any, Any]:
        """Batch, queries and head of a step; steps are counted through all heads."""
        size = self.tuning.block_q
        head, step = (0, number) if self.shared == 1 else (lax.div(number, self.count), lax.rem(number, self.count))
        return (
            lax.axis_index("batch"),
            pl.ds(self.step(step) * size, size),
            lax.axis_index("head") * self.shared + head,
        )

    def copy(self) -> None:
        """The warpgroup that copies."""
        whole = self.whole
        plgpu.copy_gmem_to_smem(whole.k.at[self.keys], self.slots.k, self.kv_filled)
        plgpu.copy_gmem_to_smem(whole.v.at[self.keys], self.slots.v, self.kv_filled)
        if whole.k_ids is not None:
            plgpu.copy_gmem_to_smem(whole.k_ids.at[self.keys[:2]], self.slots.k_ids, self.kv_filled)

        steps = self.shared * self.count

        @pl.loop(0, steps + 1)
        def _(now: Any) -> None:
            number = lax.min(now, steps - 1)
            batch, queries, head = self.place(number)
            ids = () if whole.q_ids is None else (whole.q_ids.at[batch, queries],)
            self.queries.fill(now, whole.q.at[batch, queries, head], whole.lse.at[batch, head, queries], *ids)
            self.gradients.fill(now, whole.d_out.at[batch, queries, head], whole.delta.at[batch, head, queries])

    def compute(self, group: Any) -> None:
        """A warpgroup that computes."""
        tuning, head_dim = self.tuning, self.whole.q.shape[3]
        plgpu.barrier_wait(self.kv_filled)
        accumulators = (
            (tuning.group_keys, head_dim),
            (tuning.group_keys, head_dim),
            (tuning.group_keys, tuning.block_q),
            (tuning.group_keys, tuning.block_q),
            tuning.group_queries(head_dim),
        )
        pl.run_scoped(
            lambda *refs: Group(self, group, *refs).run(),
            *[plgpu.WGMMAAccumulatorRef(shape, jnp.float32) for shape in accumulators],
        )
        plgpu.wait_smem_to_gmem(0)


@dataclass(frozen=True)
class Group:
    """One warpgroup's keys, with its accumulators."""

    block: Block
    group: Any
    d_k: Any
    d_v: Any
    scores: Any
    d_weights: Any
    d_q: Any

    def run(self) -> None:
        """All queries that see the keys. The first product for the gradients of queries is one of zeros."""
        block = self.block
        part = block.slots.d_scores.at[0, self._mine]
        part[...] = jnp.zeros(part.shape, part.dtype)
        plgpu.commit_smem()
        plgpu.barrier_arrive(block.slots.ready.at[0])
        plgpu.barrier_arrive(block.slots.done.at[1])
        self._begin(0)
        plgpu.wgmma_wait(0)

        if block.shared == 1:
            self._head(0)
        else:
            pl.loop(0, block.shared)(self._head)
        self._finish(block.shared * block.count)

    def _head(self, head: Any) -> None:
        """All queries of one head."""
        block = self.block
        masked: Any = 0
        if block.everywhere:
            pl.loop(0, block.count)(functools.partial(self._again, True, head))
            return
        if block.causal:
            masked = 1 if block.tuning.masked == 1 else lax.min(block.count, block.tuning.masked)
            pl.loop(0, masked)(functools.partial(self._again, True, head))
        pl.loop(masked, block.count)(functools.partial(self._again, False, head))

    @property
    def _mine(self) -> Any:
        size = self.block.tuning.group_keys
        return pl.ds(self.group * size, size)

    def _again(self, masked: bool, head: Any, step: Any) -> None:
        """A step whose addresses are computed anew: all of them kept would not fit the registers."""
        group, head, step = lax.optimization_barrier((self.group, jnp.int32(head), step))
        replace(self, group=group)._step(masked, head, step)

    def _step(self, masked: bool, head: Any, step: Any) -> None:
        """One block of queries, the scores of the next, and the gradients of the queries of the one before.

        So a warpgroup need not wait for what the other makes in the same step, and has products in flight while it
        computes weights and while it stores.
        """
        block, slots = self.block, self.block.slots
        now = head * block.count + step
        weights, d_scores = self._weights(masked, now, step)
        queries, gradients = block.queries.at(now)[0], block.gradients.at(now)[0]
        self.d_q[...] = zeros(self.d_q.shape)
        plgpu.wgmma(self.d_v, weights, gradients)
        slot = lax.rem(now + 1, 2)
        plgpu.barrier_wait(slots.done.at[slot])
        part = slots.d_scores.at[slot, self._mine]
        part[...] = d_scores
        plgpu.wgmma(self.d_k, d_scores, queries)
        plgpu.commit_smem()
        plgpu.barrier_arrive(slots.ready.at[slot])
        sums = self._d_q(now)
        block.queries.give_back(now)
        block.gradients.give_back(now)
        self._begin(now + 1)
        self._add(lax.max(now - 1, 0), sums)
        plgpu.wgmma_wait(0)  # no product may be in flight from one turn of a loop to the next

    def _d_q(self, use: Any) -> jax.Array:
        """From what all warpgroups have put into a slot; ``use`` counts how often slots were filled."""
        slots, slot = self.block.slots, lax.rem(use, 2)
        plgpu.barrier_wait(slots.ready.at[slot])
        plgpu.wgmma(self.d_q, *self._operands(slots.d_scores.at[slot]))
        sums: jax.Array = plgpu.wgmma_accumulator_load(self.d_q, wait_n=0)
        plgpu.barrier_arrive(slots.done.at[slot])
        return sums

    def _begin(self, now: Any) -> None:
        """The scores of a step; those of the one after the last go unused."""
        block = self.block
        self.scores[...] = zeros(self.scores.shape)
        queries = block.queries.take(now)[0]
        plgpu.wgmma(self.scores, block.slots.k.at[self._mine], queries.transpose((1, 0)))

    def _begin_weights(self, now: Any) -> None:
        """The gradients of the weights."""
        block = self.block
        self.d_weights[...] = zeros(self.d_weights.shape)
        gradients, _ = block.gradients.take(now)
        plgpu.wgmma(self.d_weights, block.slots.v.at[self._mine], gradients.transpose((1, 0)))

    def _weights(self, masked: bool, now: Any, step: Any) -> tuple[jax.Array, jax.Array]:
        """Weights and gradients of the scores, both as operands."""
        block = self.block
        (queries, lse, *ids), (_, delta) = block.queries.at(now), block.gradients.at(now)
        scores = plgpu.wgmma_accumulator_load(self.scores, wait_n=0)
        self._begin_weights(now)
        logarithms = plgpu.load(lse, layout=plgpu.Layout.WGMMA.reduce(0))
        exponents = scores * (block.scale * math.log2(math.e)) - columns(logarithms, scores)
        weights = jnp.exp2(exponents)
        if masked:
            seen = self._visible(weights.shape, step, ids)
            weights = weights if seen is None else jnp.where(seen, weights, 0.0)
        narrow = lax.optimization_barrier(weights.astype(queries.dtype))
        d_weights = plgpu.wgmma_accumulator_load(self.d_weights, wait_n=0)
        sums = plgpu.load(delta, layout=plgpu.Layout.WGMMA.reduce(0))
        d_scores = narrow.astype(jnp.float32) * (d_weights - columns(sums, d_weights))
        return narrow, lax.optimization_barrier(d_scores.astype(queries.dtype))

    def _visible(self, shape: tuple[int, ...], step: Any, ids: list[Any]) -> jax.Array | None:
        block, tuning = self.block, self.block.tuning
        first_key = lax.axis_index("tile") * tuning.block_k + self.group * tuning.group_keys
        ahead = block.step(step) * tuning.block_q - first_key
        segments = (ids[0], block.slots.k_ids.at[self._mine]) if ids else None
        return visible(shape, ahead, block.causal, block.window, segments, queries_axis=1)

    def _operands(self, slot: Any) -> tuple[Any, Any]:
        """Of the gradients of queries: this warpgroup's part of the queries, or of the head."""
        tuning, keys = self.block.tuning, self.block.slots.k
        if tuning.by_queries:
            size = tuning.block_q // tuning.groups
            return slot.at[:, pl.ds(self.group * size, size)].transpose((1, 0)), keys
        size = keys.shape[1] // tuning.groups
        return slot.transpose((1, 0)), keys.at[:, pl.ds(self.group * size, size)]

    def _add(self, number: Any, sums: jax.Array) -> None:
        """Add up the gradients of the queries of a step."""
        block, tuning = self.block, self.block.tuning
        slot = block.slots.d_q.at[self.group]
        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        slot[...] = sums
        plgpu.commit_smem()
        batch, queries, head = block.place(number)
        count, width = sums.shape
        if tuning.by_queries:
            place = block.whole.d_q.at[batch, pl.ds(queries.start + self.group * count, count), head]
        else:
            place = block.whole.d_q.at[batch, queries, head, pl.ds(self.group * width, width)]
        plgpu.copy_smem_to_gmem(slot, place, reduction_op="add")

    def _finish(self, steps: Any) -> None:
        """The last product; what keys and values get, through their own slots, which then nobody reads any more."""
        block = self.block
        plgpu.wgmma_wait(0)
        self.d_q[...] = zeros(self.d_q.shape)
        self._add(steps - 1, self._d_q(steps))
        plgpu.barrier_wait(block.slots.done.at[lax.rem(steps, 2)])
        batch, _, _ = block.keys
        first = lax.axis_index("tile") * block.tuning.block_k + self.group * block.tuning.group_keys
        place = batch, pl.ds(first, block.tuning.group_keys), lax.axis_index("head")
        k_slot, v_slot = block.slots.k.at[self._mine], block.slots.v.at[self._mine]
        v_slot[...] = self.d_v[...].astype(v_slot.dtype)
        k_slot[...] = (self.d_k[...] * block.scale).astype(k_slot.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(v_slot, block.whole.d_v.at[place])
        plgpu.copy_smem_to_gmem(k_slot, block.whole.d_k.at[place])
