"""qwix 0.1.8: quantised matmuls, ``pl.kernel`` on a TensorCore mesh with ``emit_pipeline``."""

from __future__ import annotations

from typing import Any

from benchmarks.real_kernels.entry import Built, S, bf16, call, f32, i8

_SQUARE = S(1024, 1024, dtype=i8)
_TILES = {"bm": 256, "bk": 256, "bn": 256}


def _quantized(scales: int) -> Built:
    """``scales``: along each axis of an operand."""
    from qwix.contrib.kernels.quantized_matmul import quantized_matmul

    scale = S(scales, scales, dtype=f32)
    product = lambda x, sx, y, sy: quantized_matmul(x, sx, y, sy, dtype=bf16, **_TILES)  # noqa: E731
    return product, (_SQUARE, scale, _SQUARE, scale)


def _fused(dtype: Any) -> Built:
    from qwix.contrib.kernels.lhs_fused_quantized_matmul import lhs_fused_quantized_matmul

    product = lambda x, y, sy: lhs_fused_quantized_matmul(x, y, sy, sm=1, **_TILES)  # noqa: E731
    return product, (S(1024, 1024, dtype=dtype), _SQUARE, S(1, 1, dtype=f32))


call("qwix/quantized_matmul/quantized_matmul")(lambda: _quantized(4))
call("qwix/quantized_matmul/quantized_matmul#tile_scales")(lambda: _quantized(1))
call("qwix/lhs_fused_quantized_matmul/lhs_fused_quantized_matmul")(lambda: _fused(bf16))
call("qwix/lhs_fused_quantized_matmul/lhs_fused_quantized_matmul#f32")(lambda: _fused(f32))
