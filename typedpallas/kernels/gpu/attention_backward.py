"""Flash attention, backward, on Hopper: one pass gives the gradients of queries, keys and values.

A block owns some keys, each of its computing warpgroups a part of them, and goes through the queries that see them.
Scores are transposed (keys by queries), so that weights and their gradients come out of one product as the operand
in registers of the next. The gradients of keys and values stay in registers; those of queries are sums over blocks,
which the copy engine adds up in global memory, in float32.
"""

import functools
from typing import Any
from typing import Literal as L

from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp
from typedpallas import Dim, In, InOut, Multiple, Out, Scratch, f32, i32
from typedpallas.gpu import GMEM, SMEM, Barrier
from typedpallas.kernels.gpu.attention_backward_block import Block
from typedpallas.kernels.gpu.attention_backward_refs import Slots, Whole
from typedpallas.kernels.gpu.attention_parts import Ring
from typedpallas.kernels.gpu.attention_tuning import BackwardTuning
from typedpallas.launching.errors import LaunchError
from typedpallas.launching.mesh_kernel import Mesh, MeshKernel, kernel

_REGISTERS = (240, 24)
"""Registers of a thread that computes and of one that copies."""


def attention_backward_kernel[
    T: tp.Float,
    B: Dim,
    H: Dim,
    HK: Dim,
    HO: Dim,
    NQ: Dim,
    NK: Dim,
    D: Multiple[L[64]],
    BQ: Multiple[L[64]],
    BK: Multiple[L[64]],
    S: Dim,
    G: Dim,
    GQ: Multiple[L[64]],
    GD: Dim,
](
    q: In[GMEM, T, B, NQ, H, D],
    k: In[GMEM, T, B, NK, HK, D],
    v: In[GMEM, T, B, NK, HK, D],
    d_out: In[GMEM, T, B, NQ, H, D],
    lse: In[GMEM, f32, B, H, NQ],
    delta: In[GMEM, f32, B, H, NQ],
    d_q: InOut[GMEM, f32, B, NQ, H, D],
    d_k: Out[GMEM, T, B, NK, HO, D],
    d_v: Out[GMEM, T, B, NK, HO, D],
    k_slot: Scratch[SMEM, T, BK, D],
    v_slot: Scratch[SMEM, T, BK, D],
    q_slots: Scratch[SMEM, T, S, BQ, D],
    d_out_slots: Scratch[SMEM, T, S, BQ, D],
    lse_slots: Scratch[SMEM, f32, S, BQ],
    delta_slots: Scratch[SMEM, f32, S, BQ],
    d_scores_slots: Scratch[SMEM, T, L[2], BK, BQ],
    d_q_slots: Scratch[SMEM, f32, G, GQ, GD],
    kv_filled: Scratch[Barrier],
    q_filled: Scratch[Barrier, S],
    q_freed: Scratch[Barrier, S],
    d_out_filled: Scratch[Barrier, S],
    d_out_freed: Scratch[Barrier, S],
    ready: Scratch[Barrier, L[2]],
    done: Scratch[Barrier, L[2]],
    *,
    tuning: BackwardTuning,
    causal: bool,
    window: int | None,
    scale: float,
) -> None:
    """One block of keys of one head: of keys, or of queries if ``HO`` counts those.

    ``lse`` and ``delta`` are, of each query, the logarithm to base 2 of its sum of exponentials and the sum of the
    products of its result and the result's gradient. ``d_q`` lacks the factor ``scale``.
    """
    whole = Whole(q, k, v, d_out, lse, delta, d_q, d_k, d_v)
    slots = Slots(k_slot, v_slot, d_scores_slots, d_q_slots, ready, done)
    queries = Ring((q_slots, lse_slots), q_filled, q_freed, tuning.stages)
    gradients = Ring((d_out_slots, delta_slots), d_out_filled, d_out_freed, tuning.stages)
    _run(Block(whole, slots, queries, gradients, kv_filled, tuning, causal, window, scale))


def segmented_attention_backward_kernel[
    T: tp.Float,
    B: Dim,
    H: Dim,
    HK: Dim,
    HO: Dim,
    NQ: Dim,
    NK: Dim,
    D: Multiple[L[64]],
    BQ: Multiple[L[64]],
    BK: Multiple[L[64]],
    S: Dim,
    G: Dim,
    GQ: Multiple[L[64]],
    GD: Dim,
](
    q: In[GMEM, T, B, NQ, H, D],
    k: In[GMEM, T, B, NK, HK, D],
    v: In[GMEM, T, B, NK, HK, D],
    d_out: In[GMEM, T, B, NQ, H, D],
    lse: In[GMEM, f32, B, H, NQ],
    delta: In[GMEM, f32, B, H, NQ],
    q_ids: In[GMEM, i32, B, NQ],
    k_ids: In[GMEM, i32, B, NK],
    d_q: InOut[GMEM, f32, B, NQ, H, D],
    d_k: Out[GMEM, T, B, NK, HO, D],
    d_v: Out[GMEM, T, B, NK, HO, D],
    k_slot: Scratch[SMEM, T, BK, D],
    v_slot: Scratch[SMEM, T, BK, D],
    q_slots: Scratch[SMEM, T, S, BQ, D],
    d_out_slots: Scratch[SMEM, T, S, BQ, D],
    lse_slots: Scratch[SMEM, f32, S, BQ],
    delta_slots: Scratch[SMEM, f32, S, BQ],
    q_id_slots: Scratch[SMEM, i32, S, BQ],
    k_id_slot: Scratch[SMEM, i32, BK],
    d_scores_slots: Scratch[SMEM, T, L[2], BK, BQ],
    d_q_slots: Scratch[SMEM, f32, G, GQ, GD],
    kv_filled: Scratch[Barrier],
    q_filled: Scratch[Barrier, S],
    q_freed: Scratch[Barrier, S],
    d_out_filled: Scratch[Barrier, S],
    d_out_freed: Scratch[Barrier, S],
    ready: Scratch[Barrier, L[2]],
    done: Scratch[Barrier, L[2]],
    *,
    tuning: BackwardTuning,
    causal: bool,
    window: int | None,
    scale: float,
) -> None:
    """As `attention_backward_kernel`; only equal segments see each other."""
    whole = Whole(q, k, v, d_out, lse, delta, d_q, d_k, d_v, q_ids, k_ids)
    slots = Slots(k_slot, v_slot, d_scores_slots, d_q_slots, ready, done, k_id_slot)
    queries = Ring((q_slots, lse_slots, q_id_slots), q_filled, q_freed, tuning.stages)
    gradients = Ring((d_out_slots, delta_slots), d_out_filled, d_out_freed, tuning.stages)
    _run(Block(whole, slots, queries, gradients, kv_filled, tuning, causal, window, scale))


def _run(block: Block) -> None:
    """The warpgroups part."""
    group = lax.axis_index("warpgroup")

    @pl.when(group < block.tuning.groups)
    def _() -> None:
        plgpu.set_max_registers(_REGISTERS[0], action="increase")
        block.compute(group)

    @pl.when(group == block.tuning.groups)
    def _() -> None:
        plgpu.set_max_registers(_REGISTERS[1], action="decrease")
        block.copy()


def launch(
    q: Any,
    k: Any,
    *,
    causal: bool,
    scale: float,
    tuning: BackwardTuning,
    window: int | None = None,
    segmented: bool = False,
) -> MeshKernel:
    """The kernel for arrays like these.

    Raises:
        LaunchError: the blocks do not divide the lengths, or the heads do not fit.
    """
    (batch, queries, heads, head_dim), (_, keys, kv_heads, _) = q.shape, k.shape
    tuning.check(queries, keys, head_dim)
    if heads % kv_heads:
        raise LaunchError(f"flash attention: {kv_heads} heads of keys do not divide {heads} heads of queries")
    blocks = heads if tuning.apart else kv_heads
    body = segmented_attention_backward_kernel if segmented else attention_backward_kernel
    return kernel(
        functools.partial(body, tuning=tuning, causal=causal, window=window, scale=scale),
        Mesh(
            # The last axis runs fastest: blocks side by side share a head, and so find queries in the L2 cache.
            grid={"batch": batch, "head": blocks, "tile": keys // tuning.block_k},
            threads={"warpgroup": tuning.groups + 1},
        ),
        dims={
            "HO": blocks,
            "G": tuning.groups,
            "BQ": tuning.block_q,
            "BK": tuning.block_k,
            "S": tuning.stages,
            "GQ": tuning.group_queries(head_dim)[0],
            "GD": tuning.stored_dims(head_dim),
        },
        arrivals={
            "kv_filled": 2 + segmented,
            "q_filled": 2 + segmented,
            "d_out_filled": 2,
            "q_freed": tuning.groups,
            "d_out_freed": tuning.groups,
            "ready": tuning.groups,
            "done": tuning.groups,
        },
        compiler_params=plgpu.CompilerParams(approx_math=True, unsafe_no_auto_barriers=True),
    )
