"""What a warpgroup of the backward attention does with its keys; `attention_backward` has the kernel itself."""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from typedpallas.kernels.gpu.attention_parts import columns, visible, zeros


@dataclass(frozen=True)
class Group:
    """One warpgroup's keys, with its accumulators."""

    block: Any
    """An `attention_backward_block.Block`."""
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
        self._share(part, jnp.zeros(part.shape, part.dtype))
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
        """The keys of this warpgroup, of those of the block."""
        size = self.block.tuning.group_keys
        return pl.ds(0, size) if self.block.tuning.wide else pl.ds(self.group * size, size)

    @property
    def _dims(self) -> Any:
        """The dims of the head of which it sums gradients of keys and values."""
        size = self.block.tuning.group_dims(self.block.whole.q.shape[3])
        return pl.ds(self.group * size, size) if self.block.tuning.wide else pl.ds(0, size)

    def _of_dims(self, slot: Any) -> Any:
        return slot.at[:, self._dims] if self.block.tuning.wide else slot

    def _share(self, part: Any, values: jax.Array) -> None:
        """Store what all warpgroups read; where they all have the same, the first one does."""

        def store() -> None:
            part[...] = values

        if self.block.tuning.wide:
            pl.when(self.group == 0)(store)
        else:
            store()

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
        queries, gradients = (self._of_dims(ring.at(now)[0]) for ring in (block.queries, block.gradients))
        self.d_q[...] = zeros(self.d_q.shape)
        plgpu.wgmma(self.d_v, weights, gradients)
        slot = lax.rem(now + 1, 2)
        plgpu.barrier_wait(slots.done.at[slot])
        self._share(slots.d_scores.at[slot, self._mine], d_scores)
        plgpu.wgmma(self.d_k, d_scores, queries)
        plgpu.commit_smem()
        plgpu.barrier_arrive(slots.ready.at[slot])
        before = lax.max(now - 1, 0)
        sums = self._but_one(now, before)
        block.queries.give_back(now)
        block.gradients.give_back(now)
        self._begin(now + 1)
        self._add(before, sums, self._parts - 1)
        plgpu.wgmma_wait(0)  # no product may be in flight from one turn of a loop to the next

    @property
    def _parts(self) -> int:
        return int(self.block.tuning.parts(self.block.whole.q.shape[3]))

    def _but_one(self, use: Any, number: Any) -> jax.Array:
        """Add up the gradients of queries but for the last part, which it returns. ``use``: as of `_d_q`."""
        for part in range(self._parts - 1):
            self._add(number, self._d_q(use, part), part)
            self.d_q[...] = zeros(self.d_q.shape)
        return self._d_q(use, self._parts - 1)

    def _d_q(self, use: Any, part: int) -> jax.Array:
        """From what all warpgroups have put into a slot; ``use`` counts how often slots were filled."""
        slots, slot = self.block.slots, lax.rem(use, 2)
        if part == 0:
            plgpu.barrier_wait(slots.ready.at[slot])
        plgpu.wgmma(self.d_q, *self._operands(slots.d_scores.at[slot], part))
        sums: jax.Array = plgpu.wgmma_accumulator_load(self.d_q, wait_n=0)
        if part == self._parts - 1:
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
        first_key = lax.axis_index("tile") * tuning.block_k + self._mine.start
        ahead = block.step(step) * tuning.block_q - first_key
        segments = (ids[0], block.slots.k_ids.at[self._mine]) if ids else None
        return visible(shape, ahead, block.causal, block.window, segments, queries_axis=1)

    def _operands(self, slot: Any, part: int) -> tuple[Any, Any]:
        """Of the gradients of queries: this warpgroup's part of the queries, or of the head."""
        tuning, keys = self.block.tuning, self.block.slots.k
        if tuning.by_queries:
            size = tuning.block_q // tuning.groups
            return slot.at[:, pl.ds(self.group * size, size)].transpose((1, 0)), keys
        width = self.d_q.shape[1]
        first = self.group * (keys.shape[1] // tuning.groups) + part * width
        return slot.transpose((1, 0)), keys.at[:, pl.ds(first, width)]

    def _add(self, number: Any, sums: jax.Array, part: int) -> None:
        """Add up a part of the gradients of the queries of a step."""
        block, tuning = self.block, self.block.tuning
        batch, queries, head = block.place(number)
        slot = block.slots.d_q.at[self.group]
        count, width = slot.shape
        for start in range(0, sums.shape[1], width):
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            slot[...] = sums if width == sums.shape[1] else sums[:, start : start + width]
            plgpu.commit_smem()
            if tuning.by_queries:
                place = block.whole.d_q.at[batch, pl.ds(queries.start + self.group * count, count), head]
            else:
                first = self.group * (block.whole.q.shape[3] // tuning.groups) + part * sums.shape[1] + start
                place = block.whole.d_q.at[batch, queries, head, pl.ds(first, width)]
            plgpu.copy_smem_to_gmem(slot, place, reduction_op="add")

    def _finish(self, steps: Any) -> None:
        """The last product; what keys and values get, through their own slots, which then nobody reads any more."""
        block = self.block
        plgpu.wgmma_wait(0)
        self.d_q[...] = zeros(self.d_q.shape)
        self._add(steps - 1, self._but_one(steps, steps - 1), self._parts - 1)
        plgpu.barrier_wait(block.slots.done.at[lax.rem(steps, 2)])
        batch, _, _ = block.keys
        first = lax.axis_index("tile") * block.tuning.block_k + self._mine.start
        place = batch, pl.ds(first, block.tuning.group_keys), lax.axis_index("head")
        k_slot, v_slot = (slot.at[self._mine] for slot in (block.slots.k, block.slots.v))
        self._of_dims(v_slot)[...] = self.d_v[...].astype(v_slot.dtype)
        self._of_dims(k_slot)[...] = (self.d_k[...] * block.scale).astype(k_slot.dtype)
        plgpu.commit_smem()

        def copy() -> None:
            plgpu.copy_smem_to_gmem(v_slot, block.whole.d_v.at[place])
            plgpu.copy_smem_to_gmem(k_slot, block.whole.d_k.at[place])

        if block.tuning.wide:  # only whole rows can be copied
            everyone = block.slots.ready.at[lax.rem(steps + 1, 2)]
            plgpu.barrier_arrive(everyone)
            plgpu.barrier_wait(everyone)
            pl.when(self.group == 0)(copy)
        else:
            copy()
