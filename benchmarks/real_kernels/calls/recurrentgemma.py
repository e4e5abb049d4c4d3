"""recurrentgemma 1.0.1: the linear scan of its recurrent block."""

from __future__ import annotations

from typing import Any

from benchmarks.real_kernels.entry import Built, S, call, f32, gradients
from benchmarks.real_kernels.packages import without_init


def _scan(backward: bool) -> Built:
    without_init("recurrentgemma", "recurrentgemma.jax")
    from recurrentgemma import common
    from recurrentgemma.jax import scan

    def forward(x: Any, a: Any, h: Any) -> Any:
        return scan.linear_scan(x, a, h, scan_type=common.ScanType.LINEAR_PALLAS)

    tokens = S(2, 2048, 2560, dtype=f32)
    return gradients(forward, 3) if backward else forward, (tokens, tokens, S(2, 2560, dtype=f32))


call("recurrentgemma/scan/linear_scan")(lambda: _scan(False))
call("recurrentgemma/scan/linear_scan#bwd")(lambda: _scan(True))
