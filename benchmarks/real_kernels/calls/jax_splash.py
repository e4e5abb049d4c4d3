"""JAX's splash attention for TPUs: its masks come with the call, as scalars fetched ahead."""

from __future__ import annotations

from typing import Any

from benchmarks.real_kernels.entry import Built, S, bf16, call, gradients, i32

_NAME = "jax/splash_attention/make_splash_mha_single_device"


def _splash(
    mask: str,
    *,
    backward: bool = False,
    fused: bool = False,
    shared: bool = False,
    ids: bool = False,
    cap: Any = None,
) -> Built:
    """Four heads of 1024 tokens. ``shared``: one head of keys and values for all of them."""
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    heads, tokens, depth = 4, 1024, 128
    separate = {} if fused else {"block_q_dq": 512, "block_kv_dq": 512}
    sizes = splash.BlockSizes(
        block_q=512,
        block_kv=512,
        block_kv_compute=256,
        block_q_dkv=512,
        block_kv_dkv=512,
        block_kv_dkv_compute=256,
        use_fused_bwd_kernel=fused,
        **separate,
    )
    square = (tokens, tokens)
    one = masks.CausalMask(square) if mask == "causal" else masks.LocalMask(square, (256, 256), 0)
    make = splash.make_splash_mqa_single_device if shared else splash.make_splash_mha_single_device
    attend = make(mask=masks.MultiHeadMask([one] * heads), block_sizes=sizes, attn_logits_soft_cap=cap)

    def forward(q: Any, k: Any, v: Any, *segments: Any) -> Any:
        return attend(q, k, v, segment_ids=splash.SegmentIds(*segments) if segments else None)

    def gradient(q: Any, k: Any, v: Any, *segments: Any) -> Any:
        return gradients(lambda *args: forward(*args, *segments), 3)(q, k, v)

    many = S(heads, tokens, depth, dtype=bf16)
    keys = S(tokens, depth) if shared else many
    segments = (S(tokens, dtype=i32),) * 2 if ids else ()
    return gradient if backward else forward, (many, keys, keys, *segments)


call(_NAME)(lambda: _splash("causal"))
call(f"{_NAME}#local_softcap_seg")(lambda: _splash("local", ids=True, cap=20.0))
call(f"{_NAME}#bwd")(lambda: _splash("causal", backward=True))
call(f"{_NAME}#bwd_fused")(lambda: _splash("causal", backward=True, fused=True, ids=True))
call("jax/splash_attention/make_splash_mqa_single_device#bwd")(lambda: _splash("causal", backward=True, shared=True))
