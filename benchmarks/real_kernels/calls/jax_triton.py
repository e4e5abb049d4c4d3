"""JAX's own Triton kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.real_kernels.entry import GPUS, Built, S, call, f16, f32, gradients, i32


@call("jax/gpu.attention/mha", GPUS)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu.attention import mha

    return lambda q, k, v: mha(q, k, v, None, causal=True), (S(2, 1024, 8, 64, dtype=f16),) * 3


@call("jax/gpu.attention/mha#bwd_segids", GPUS)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu.attention import BlockSizes, mha

    sizes = BlockSizes(128, 128, 32, 32, 32, 32)

    def backward(q: Any, k: Any, v: Any, segments: Any) -> Any:
        attend = lambda q, k, v: mha(q, k, v, segments, causal=True, block_sizes=sizes)  # noqa: E731
        return gradients(attend, 3)(q, k, v)

    return backward, (*(S(2, 512, 4, 64, dtype=f16),) * 3, S(2, 512, dtype=i32))


def _norm(fn: Callable[..., Any], features: int, backward: bool) -> Built:
    row = S(features, dtype=f32)
    return gradients(fn, 3) if backward else fn, (S(4, 384, features, dtype=f32), row, row)


@call("jax/gpu.layer_norm/layer_norm", GPUS)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu.layer_norm import layer_norm

    return _norm(layer_norm, 1024, backward=False)


@call("jax/gpu.layer_norm/layer_norm#bwd", GPUS)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu.layer_norm import layer_norm

    return _norm(layer_norm, 192, backward=True)


@call("jax/gpu.rms_norm/rms_norm", GPUS)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu.rms_norm import rms_norm

    return _norm(rms_norm, 1024, backward=False)


@call("jax/gpu.rms_norm/rms_norm#bwd", GPUS)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu.rms_norm import rms_norm

    return _norm(rms_norm, 192, backward=True)


@call("jax/gpu.softmax/softmax", GPUS)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu.softmax import softmax

    return softmax, (S(128, 1000, dtype=f32),)


@call("jax/gpu.decode_attention/mqa", GPUS)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu.decode_attention import mqa

    cache = S(4, 2048, 128, dtype=f16)
    return mqa, (S(4, 16, 128, dtype=f16), cache, cache)


@call("jax/gpu.decode_attention/gqa", GPUS)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu.decode_attention import gqa

    cache, ends = S(4, 2048, 8, 128, dtype=f16), S(4, dtype=i32)
    return lambda *args: gqa(*args), (S(4, 32, 128, dtype=f16), cache, cache, ends, ends)


@call("jax/gpu.paged_attention/paged_attention", GPUS)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu.paged_attention import paged_attention

    pages = S(8, 1024, 16, 128, dtype=f16)
    return paged_attention, (S(8, 32, 128, dtype=f16), pages, pages, S(8, 128, dtype=i32), S(8, dtype=i32))
