"""tokamax 0.0.17: its public operations, each with the backend named."""

from __future__ import annotations

import functools
from typing import Any

import jax

from benchmarks.real_kernels.entry import BLACKWELL, GPUS, HOPPER, Built, S, bf16, call, f32, gradients, i32


def _attention(backend: str, backward: bool = False, depth: int = 128, key_heads: int = 8) -> Built:
    import tokamax

    attend = functools.partial(tokamax.dot_product_attention, implementation=backend, is_causal=True)
    keys = S(2, 2048, key_heads, depth)
    return gradients(attend, 3) if backward else attend, (S(2, 2048, 8, depth), keys, keys)


_ATTENTION = "tokamax/dot_product_attention"
call(f"{_ATTENTION}#mosaic_tpu")(lambda: _attention("mosaic_tpu"))
call(f"{_ATTENTION}#mosaic_tpu_bwd")(lambda: _attention("mosaic_tpu", True))
call(f"{_ATTENTION}#triton", GPUS)(lambda: _attention("triton", depth=64))
call(f"{_ATTENTION}#triton_bwd", GPUS)(lambda: _attention("triton", True, depth=64))
call(f"{_ATTENTION}#mosaic_gpu", GPUS)(lambda: _attention("mosaic_gpu"))
call(f"{_ATTENTION}#mosaic_gpu_d64_gqa", GPUS)(lambda: _attention("mosaic_gpu", depth=64, key_heads=2))
call(f"{_ATTENTION}#mosaic_gpu_bwd", HOPPER + BLACKWELL)(lambda: _attention("mosaic_gpu", True))


def _ragged(backend: str, backward: bool = False, rows: int = 4096) -> Built:
    import tokamax

    def forward(a: Any, b: Any, sizes: Any) -> Any:
        return tokamax.ragged_dot(a, b, sizes, implementation=backend, preferred_element_type=bf16)

    def gradient(a: Any, b: Any, sizes: Any) -> Any:
        return gradients(lambda a, b: forward(a, b, sizes), 2)(a, b)

    return gradient if backward else forward, (S(rows, 4096), S(8, 4096, 4096), S(8, dtype=i32))


_RAGGED = "tokamax/ragged_dot"
call(f"{_RAGGED}#mosaic_tpu")(lambda: _ragged("mosaic_tpu"))
call(f"{_RAGGED}#mosaic_tpu_bwd")(lambda: _ragged("mosaic_tpu", True))
call(f"{_RAGGED}#mosaic_tpu_v2")(lambda: _ragged("mosaic_tpu_v2"))
call(f"{_RAGGED}#mosaic_gpu", GPUS)(lambda: _ragged("mosaic_gpu"))
call(f"{_RAGGED}#mosaic_gpu_bwd", HOPPER + BLACKWELL)(lambda: _ragged("mosaic_gpu", True))
call(f"{_RAGGED}#mosaic_gpu_memory_bound_m8", GPUS)(lambda: _ragged("mosaic_gpu", rows=8))


def _loss(backward: bool) -> Built:
    """Qwen3 8B's last layer."""
    import tokamax

    def forward(x: Any, labels: Any, w: Any) -> Any:
        fn = tokamax.linear_softmax_cross_entropy_loss
        return fn(x, labels, w, reduction="mean", implementation="mosaic_tpu")

    def gradient(x: Any, labels: Any, w: Any) -> Any:
        return jax.grad(lambda x, w: forward(x, labels, w).astype(f32), argnums=(0, 1))(x, w)

    return gradient if backward else forward, (S(1024, 4096), S(1024, dtype=i32), S(4096, 151936))


call("tokamax/linear_softmax_cross_entropy_loss#qwen3_8b")(lambda: _loss(False))
call("tokamax/linear_softmax_cross_entropy_loss#qwen3_8b_bwd")(lambda: _loss(True))


@call("tokamax/gated_linear_unit#mosaic", GPUS)
def _() -> Built:
    import tokamax

    def unit(x: Any, w: Any) -> Any:
        return tokamax.gated_linear_unit(x, w, activation=jax.nn.swish, implementation="mosaic")

    return unit, (S(4096, 2048), S(2048, 2, 4096))
