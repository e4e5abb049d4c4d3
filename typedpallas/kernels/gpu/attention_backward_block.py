"""What a block of the backward attention does: which queries its keys meet, and the warpgroup that copies them."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from typedpallas.kernels.gpu.attention_backward_parts import Group
from typedpallas.kernels.gpu.attention_backward_refs import Slots, Whole
from typedpallas.kernels.gpu.attention_parts import Ring
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
            (tuning.group_keys, tuning.group_dims(head_dim)),
            (tuning.group_keys, tuning.group_dims(head_dim)),
            (tuning.group_keys, tuning.block_q),
            (tuning.group_keys, tuning.block_q),
            tuning.group_queries(head_dim),
        )
        pl.run_scoped(
            lambda *refs: Group(self, group, *refs).run(),
            *[plgpu.WGMMAAccumulatorRef(shape, jnp.float32) for shape in accumulators],
        )
        plgpu.wait_smem_to_gmem(0)
