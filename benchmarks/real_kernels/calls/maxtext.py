"""maxtext 0.2.5."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp

from benchmarks.real_kernels.entry import Built, S, bf16, call, f32, gradients, group_sizes, i32
from benchmarks.real_kernels.packages import without_init

_HEADS, _TOKENS, _DEPTH = 8, 2048, 128
_BLOCKS = ("block_q", "block_kv", "block_kv_compute", "block_q_dkv", "block_kv_dkv", "block_kv_dkv_compute")


def _enter() -> None:
    without_init("maxtext", "maxtext.kernels", "maxtext.kernels.megablox")


def _attended(attend: Any, backward: bool) -> Built:
    fn = lambda q, k, v: attend(q, k, v)  # noqa: E731
    return gradients(fn, 3) if backward else fn, (S(_HEADS, _TOKENS, _DEPTH),) * 3


def _splash(backward: bool, fused: bool = False, cap: float | None = None) -> Built:
    _enter()
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
    from maxtext.kernels.attention import splash_attention_kernel as splash

    separate = {} if fused else {"block_q_dq": 512, "block_kv_dq": 512}
    sizes = splash.BlockSizes(**dict.fromkeys(_BLOCKS, 512), **separate, use_fused_bwd_kernel=fused)
    mask = masks.MultiHeadMask([masks.CausalMask((_TOKENS, _TOKENS))] * _HEADS)
    attend = splash.make_splash_mha(
        mask=mask, head_shards=1, q_seq_shards=1, block_sizes=sizes, attn_logits_soft_cap=cap
    )
    return _attended(attend, backward)


call("maxtext/attention.splash_attention_kernel/make_splash_mha")(lambda: _splash(False, cap=50.0))
call("maxtext/attention.splash_attention_kernel/make_splash_mha#bwd")(lambda: _splash(True))
call("maxtext/attention.splash_attention_kernel/make_splash_mha#bwd_fused")(lambda: _splash(True, fused=True))


def _other_splash(backward: bool) -> Built:
    _enter()
    from maxtext.kernels.tokamax_splash_attention import splash_attention_kernel as splash
    from maxtext.kernels.tokamax_splash_attention import splash_attention_mask as masks

    small = {"block_kv_compute": 256, "block_kv_dkv_compute": 256}
    config = splash.SplashConfig(**(dict.fromkeys(_BLOCKS, 512) | small))
    return _attended(splash.make_splash_mha_single_device(masks.CausalMask((_TOKENS,) * 2), config=config), backward)


_OTHER = "maxtext/tokamax_splash_attention/make_splash_mha_single_device"
call(_OTHER)(lambda: _other_splash(False))
call(f"{_OTHER}#bwd")(lambda: _other_splash(True))


def _decode(name: str, heads: int) -> Built:
    _enter()
    from maxtext.kernels.attention import ragged_attention

    cache = S(4, _TOKENS, 8, 128)
    return getattr(ragged_attention, name), (S(4, 1, heads, 128), cache, cache, S(4, dtype=i32))


call("maxtext/attention.ragged_attention/ragged_mha")(lambda: _decode("ragged_mha", 8))
call("maxtext/attention.ragged_attention/ragged_gqa")(lambda: _decode("ragged_gqa", 32))


@call("maxtext/attention.csa_streamindex/csa_streamindex_score")
def _() -> Built:
    _enter()
    from maxtext.kernels.attention.csa_streamindex import csa_streamindex_score

    args = (S(1, 64, 1024, 128), S(1, 512, 128), S(1, 1024, 64, dtype=f32))
    return lambda q, c, w: csa_streamindex_score(q, c, w, 0.088), args


def _grouped(name: str) -> Built:
    _enter()
    from maxtext.kernels.megablox import backend

    product = functools.partial(getattr(backend, name), preferred_element_type=bf16, tiling=(512, 512, 512))
    m, k, n, groups = 2048, 1024, 1024, 8
    pair = (S(m, k), S(groups, k, n)) if name == "gmm" else (S(k, m), S(m, n))
    return product, (*pair, group_sizes(groups, m))


call("maxtext/megablox.backend/gmm")(lambda: _grouped("gmm"))
call("maxtext/megablox.backend/tgmm")(lambda: _grouped("tgmm"))


@call("maxtext/megablox.pallas_mosaic_tpu_v2_gmm_kernel/gmm_v2")
def _() -> Built:
    _enter()
    from maxtext.kernels.megablox.pallas_mosaic_tpu_v2_gmm_kernel import gmm_v2

    return gmm_v2, (S(4096, 2048), S(16, 2048, 4096), S(16, dtype=i32))


@call("maxtext/megablox.pallas_mosaic_tpu_v2_tgmm_kernel/tgmm_v2")
def _() -> Built:
    _enter()
    from maxtext.kernels.megablox.pallas_mosaic_tpu_v2_tgmm_kernel import tgmm_v2

    args = (S(4096, 2048), S(4096, 4096), S(16, dtype=i32))
    return lambda x, y, sizes: tgmm_v2(x, y, sizes, 16, preferred_element_type=bf16), args


@call("maxtext/gather_reduce_pallas/sc_gather_reduce")
def _() -> Built:
    _enter()
    from maxtext.kernels.gather_reduce_pallas import sc_gather_reduce

    args = (S(16384, 7168), S(16384, dtype=i32), S(16384 // 128, 128))
    return lambda x, at, w: sc_gather_reduce(x, at, w, reduce_group_size=8), args


@call("maxtext/ragged.ragged_gather/ragged_gather")
def _() -> Built:
    _enter()
    from maxtext.kernels.ragged.ragged_gather import ragged_gather

    return ragged_gather, (S(4096, 7168), S(16384, dtype=i32), S(1, dtype=i32), S(1, dtype=i32))


def _gather_reduce(fn: Any) -> Built:
    flat = (S(16384, dtype=i32), S(16384, dtype=f32), S(16384, dtype=jnp.bool_))
    return lambda x, at, weights, mask: fn(x, at, weights, mask, 8), (S(16384, 7168), *flat)


@call("maxtext/ragged.ragged_gather_reduce/ragged_gather_reduce")
def _() -> Built:
    _enter()
    from maxtext.kernels.ragged.ragged_gather_reduce import ragged_gather_reduce

    return _gather_reduce(ragged_gather_reduce)


@call("maxtext/ragged.ragged_gather_reduce_v2/ragged_gather_reduce")
def _() -> Built:
    _enter()
    from maxtext.kernels.ragged.ragged_gather_reduce_v2 import ragged_gather_reduce

    return _gather_reduce(ragged_gather_reduce)
