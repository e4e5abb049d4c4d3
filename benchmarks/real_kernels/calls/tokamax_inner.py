"""tokamax 0.0.17: operations that it does not export yet."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp

from benchmarks.real_kernels.entry import Built, S, bf16, call, f8, f32, gradients, i32


def _delta_attention(backward: bool) -> Built:
    import tokamax  # noqa: F401 (sets the package up)
    from tokamax._src.ops.kda.api import kimi_delta_attention

    heads, tokens = 8, 2048
    fixed = {"use_qk_l2norm": True, "use_gate_in_kernel": True, "lower_bound": -5.0, "implementation": "mosaic"}

    def forward(q: Any, k: Any, v: Any, gate: Any, beta: Any, log: Any, bias: Any) -> Any:
        return kimi_delta_attention(q, k, v, gate, beta, a_log=log, delta_time_bias=bias, **fixed)[0]

    many = S(heads, 1, tokens, 128)
    args = (many, many, many, many, S(heads, 1, tokens), S(heads, dtype=f32), S(heads * 128, dtype=f32))
    return gradients(forward, 5) if backward else forward, args


call("tokamax/kda/kimi_delta_attention")(lambda: _delta_attention(False))
call("tokamax/kda/kimi_delta_attention#bwd")(lambda: _delta_attention(True))


@call("tokamax/topk/top_k", ("tpu-7x", "tpu-v6e"))
def _() -> Built:
    from tokamax._src.ops.topk.api import top_k

    return lambda x: top_k(x, 512, implementation="mosaic_tpu"), (S(64, 8192, dtype=f32),)


@call("tokamax/router_topk/router_topk")
def _() -> Built:
    from tokamax._src.ops.router_topk.api import router_topk

    return lambda x: router_topk(x, 8, implementation="mosaic_tpu"), (S(4096, 256, dtype=f32),)


@call("tokamax/mhc/mhc_pre")
def _() -> Built:
    from tokamax._src.ops.mhc.api import mhc_pre

    args = (S(256, 4 * 4096), S(24, 4 * 4096, dtype=f32), S(3, dtype=f32), S(24, dtype=f32))
    return lambda *a: mhc_pre(*a, 1e-6, 1e-6, 1e-6, 2.0, 20, implementation="mosaic_tpu"), args


@call("tokamax/mhc/mhc_post")
def _() -> Built:
    from tokamax._src.ops.mhc.api import mhc_post

    args = (S(256, 4096), S(256, 4 * 4096), S(256, 4, dtype=f32), S(256, 4, 4, dtype=f32))
    return lambda *a: mhc_post(*a, implementation="mosaic_tpu"), args


@call("tokamax/csa_gather/csa_gather")
def _() -> Built:
    from tokamax._src.ops.csa_gather.api import csa_gather

    args = (S(1000, 256, 128, dtype=i32), S(1000, 64, 128, dtype=i32), S(16384, dtype=i32))
    return lambda n, r, at: csa_gather(n, r, at, implementation="mosaic_tpu"), args


@call("tokamax/gmm_v2/gmm_v2")
def _() -> Built:
    from tokamax._src.ops.gmm_v2.gmm_v2 import gmm_v2

    return gmm_v2, (S(4096, 2048), S(16, 2048, 4096), S(16, dtype=i32))


@call("tokamax/gmm_v2/tgmm_v2")
def _() -> Built:
    from tokamax._src.ops.gmm_v2.tgmm_v2 import tgmm_v2

    args = (S(4096, 2048), S(4096, 4096), S(16, dtype=i32))
    return lambda x, y, sizes: tgmm_v2(x, y, sizes, 16, preferred_element_type=bf16), args


@call("tokamax/fused_fp8_matmul/fused_fp8_matmul_pallas")
def _() -> Built:
    from tokamax._src.ops.experimental.fused_fp8_matmul import pallas_mosaic_tpu_kernel as module

    args = (S(2048, 2048), S(2048, 4096, dtype=f8), S(4096, dtype=f32))
    return functools.partial(module.fused_fp8_matmul_pallas, bm=512, bk=2048, bn=512), args


@call("tokamax/fused_fp8_matmul/fused_fp8_dlhs_pallas")
def _() -> Built:
    from tokamax._src.ops.experimental.fused_fp8_matmul import pallas_mosaic_tpu_dlhs_kernel as module

    args = (S(2048, 4096), S(2048, 4096, dtype=f8), S(4096, dtype=f32))
    return functools.partial(module.fused_fp8_dlhs_pallas, bm=512, bk=512, bn=1024), args


def _splash(backward: bool) -> Built:
    import tokamax  # noqa: F401 (sets the package up)
    from tokamax._src.ops.experimental.tpu.splash_attention import splash_attention_kernel as splash
    from tokamax._src.ops.experimental.tpu.splash_attention import splash_attention_mask as masks

    config = splash.SplashConfig(
        block_q=512,
        block_kv=512,
        block_kv_compute=256,
        block_q_dkv=512,
        block_kv_dkv=512,
        block_kv_dkv_compute=256,
    )
    attend = splash.make_splash_mha_single_device(masks.CausalMask((2048, 2048)), config=config)
    fn = lambda q, k, v: attend(q, k, v)  # noqa: E731
    return gradients(fn, 3) if backward else fn, (S(8, 2048, 128),) * 3


call("tokamax/splash_attention/make_splash_mha_single_device")(lambda: _splash(False))
call("tokamax/splash_attention/make_splash_mha_single_device#bwd")(lambda: _splash(True))


@call("tokamax/ragged_gather/ragged_gather_pallas")
def _() -> Built:
    from tokamax._src.ops.ragged_gather.pallas_mosaic_tpu_kernel import ragged_gather_pallas

    return ragged_gather_pallas, (S(512, 8192), S(1024, dtype=i32), S(1, dtype=i32), S(1, dtype=i32))


@call("tokamax/ragged_gather_reduce/ragged_gather_reduce")
def _() -> Built:
    from tokamax._src.ops.ragged_gather_reduce.pallas_mosaic_tpu_kernel import ragged_gather_reduce

    args = (S(16384, 7168), S(16384, dtype=i32), S(16384, dtype=f32), S(16384, dtype=jnp.bool_))
    return lambda x, at, weights, mask: ragged_gather_reduce(x, at, weights, mask, 8), args


@call("tokamax/deepseek_rope/qnorm_rope")
def _() -> Built:
    from tokamax._src.ops.deepseek_rope.pallas_mosaic_tpu_kernel import qnorm_rope

    return qnorm_rope, (S(256, 64, 512), S(256, dtype=i32), S(4096, 64, dtype=f32))


@call("tokamax/batched_rpa/ragged_paged_attention")
def _() -> Built:
    from tokamax._src.ops.batched_rpa.kernel.wrapper import ragged_paged_attention

    tokens, sequences = 512, 8
    keys, pages = S(tokens, 8, 128), S(256, 128, 8, 2, 128, dtype=bf16)
    table = (S(sequences, dtype=i32), S(sequences * 16, dtype=i32), S(sequences + 1, dtype=i32), S(3, dtype=i32))
    return ragged_paged_attention, (S(tokens, 32, 128), keys, keys, pages, *table)
