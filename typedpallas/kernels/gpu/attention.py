"""Flash attention, forward, on Hopper: warp-specialised and persistent.

One warpgroup copies queries, keys and values. Each of the others owns some queries. In every step it begins the
scores of the next block of keys and, behind them, the product of this block's weights with the values; the softmax
of the next block runs beside the second product. Warpgroups take turns in beginning, so that the softmax of one
also runs beside the products of another.
"""

import functools
import math
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp
from typedpallas import Dim, In, Multiple, Out, Scratch, f32, i32
from typedpallas.gpu import GMEM, SMEM, Barrier, ClusterBarrier
from typedpallas.kernels.gpu.attention_forward_parts import Block, Refs
from typedpallas.kernels.gpu.attention_parts import Ring
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
    turns: In[GMEM, i32, BLOCKS, TURNS, L[3]],
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
    k_freed: Scratch[ClusterBarrier, S],
    v_filled: Scratch[Barrier, S],
    v_freed: Scratch[ClusterBarrier, S],
    go: Scratch[Barrier, G],
    *,
    work: Work,
    tuning: AttentionTuning,
    scale: float,
) -> None:
    """All tiles of queries of one block, in the order of its row of ``turns``."""
    refs = Refs(q, k, v, turns, out, lse, q_slots, out_slots, lse_slots, go)
    keys = Ring((k_slots,), k_filled, k_freed, tuning.stages, tuning.peers)
    values = Ring((v_slots,), v_filled, v_freed, tuning.stages, tuning.peers)
    _run(Block(refs, keys, values, q_filled, q_freed, work, tuning, scale * math.log2(math.e)))


def segmented_attention_kernel[
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
    q_ids: In[GMEM, i32, B, NQ],
    k_ids: In[GMEM, i32, B, NK],
    turns: In[GMEM, i32, BLOCKS, TURNS, L[3]],
    out: Out[GMEM, T, B, NQ, H, D],
    lse: Out[GMEM, f32, B, H, NQ],
    q_slots: Scratch[SMEM, T, G, BQ, D],
    out_slots: Scratch[SMEM, T, G, BQ, D],
    lse_slots: Scratch[SMEM, f32, G, BQ],
    k_slots: Scratch[SMEM, T, S, BK, D],
    v_slots: Scratch[SMEM, T, S, BK, D],
    q_id_slots: Scratch[SMEM, i32, G, BQ],
    k_id_slots: Scratch[SMEM, i32, S, BK],
    q_filled: Scratch[Barrier, G],
    q_freed: Scratch[Barrier, G],
    k_filled: Scratch[Barrier, S],
    k_freed: Scratch[ClusterBarrier, S],
    v_filled: Scratch[Barrier, S],
    v_freed: Scratch[ClusterBarrier, S],
    go: Scratch[Barrier, G],
    *,
    work: Work,
    tuning: AttentionTuning,
    scale: float,
) -> None:
    """All tiles of queries of one block, in the order of its row of ``turns``; only equal segments see each other."""
    refs = Refs(q, k, v, turns, out, lse, q_slots, out_slots, lse_slots, go, q_ids, k_ids, q_id_slots)
    keys = Ring((k_slots, k_id_slots), k_filled, k_freed, tuning.stages, tuning.peers)
    values = Ring((v_slots,), v_filled, v_freed, tuning.stages, tuning.peers)
    _run(Block(refs, keys, values, q_filled, q_freed, work, tuning, scale * math.log2(math.e)))


def _run(block: Block) -> None:
    """The warpgroups part."""
    tuning, group = block.tuning, lax.axis_index("warpgroup")
    compute, copy = _REGISTERS[tuning.groups]

    @pl.when(group < tuning.groups)
    def _() -> None:
        plgpu.set_max_registers(compute, action="increase")
        block.compute(group)

    @pl.when(group == tuning.groups)
    def _() -> None:
        plgpu.set_max_registers(copy, action="decrease")
        block.copy()


def launch(
    q: Any,
    k: Any,
    *,
    causal: bool,
    scale: float,
    tuning: AttentionTuning,
    window: int | None = None,
    segmented: bool = False,
) -> tuple[MeshKernel, Any]:
    """The kernel for arrays like these, and its ``turns``.

    Raises:
        LaunchError: the blocks do not divide the lengths, the heads do not fit, or a window is not causal.
    """
    (batch, queries, heads, head_dim), (_, keys, kv_heads, _) = q.shape, k.shape
    tuning.check(queries, keys)
    if heads % kv_heads:
        raise LaunchError(f"flash attention: {kv_heads} heads of keys do not divide {heads} heads of queries")
    if window is not None and (not causal or window < 1):
        raise LaunchError(f"flash attention: `window`: expected at least 1 and `causal`, found {window}")
    if tuning.paired and causal:
        raise LaunchError("flash attention: blocks of a causal mask see different keys, and cannot be `paired`")
    shared = 2 * keys * head_dim * q.dtype.itemsize
    blocks = 2 if tuning.paired else 1
    work = Work(batch * heads, queries, keys, blocks * tuning.tile, tuning.block_k, causal, shared, window)
    clusters = min(multiprocessors() // blocks, work.heads * work.tiles)
    body = segmented_attention_kernel if segmented else attention_kernel
    run = kernel(
        functools.partial(body, work=work, tuning=tuning, scale=scale),
        Mesh(
            grid={"block": clusters},
            cluster={tuning.peers: blocks} if tuning.peers else {},
            threads={"warpgroup": tuning.groups + 1},
        ),
        dims={"G": tuning.groups, "BQ": tuning.block_q, "BK": tuning.block_k, "S": tuning.stages},
        arrivals={
            "k_freed": tuning.groups,
            "v_freed": tuning.groups,
            "q_filled": 1 + segmented,
            "k_filled": 1 + segmented,
        },
        compiler_params=plgpu.CompilerParams(approx_math=True, unsafe_no_auto_barriers=True),
    )
    return run, jnp.asarray(schedule(work, clusters))


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    segments: tuple[jax.Array, jax.Array] | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    tuning: AttentionTuning | None = None,
) -> tuple[jax.Array, jax.Array]:
    """``softmax(scale q k^T) v`` and the logarithm of each row's sum of exponentials, on a Hopper GPU.

    Args:
        q: float16 or bfloat16, shape ``(batch, queries, heads, head_dim)``.
        k: the same type, shape ``(batch, keys, kv_heads, head_dim)``; ``kv_heads`` divides ``heads``.
        v: as ``k``.
        segments: of queries and of keys, int32, shapes ``(batch, queries)`` and ``(batch, keys)``; a query sees the
            keys of its own segment, and must see one.
        causal: query ``i`` sees the keys ``0 .. i``.
        window: and of these the last ``window``, itself included.
        scale: factor of the scores; unless given, ``head_dim ** -0.5``.
        tuning: unless given, what is fastest on an H200.

    Returns:
        The shape and type of ``q``; float32, shape ``(batch, heads, queries)``.
    """
    everywhere = window is not None or segments is not None
    chosen = tuning or default(q.shape[1], k.shape[1], q.shape[3], causal, everywhere)
    factor = q.shape[3] ** -0.5 if scale is None else scale
    run, turns = launch(
        q, k, causal=causal, scale=factor, tuning=chosen, window=window, segmented=segments is not None
    )
    out: jax.Array
    lse: jax.Array
    out, lse = run(q, k, v, *(segments or ()), turns)
    return out, lse
