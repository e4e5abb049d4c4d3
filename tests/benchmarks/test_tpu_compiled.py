"""The table of what the TPU compiler says of the TPU kernels, from made-up answers."""

from typing import Any

import pytest

from benchmarks import tpu_compiled
from benchmarks.ledger import Row
from benchmarks.tpu_compiled import Said

COSTS = {"bytes accessed": 2.0**20, "flops": 3e9}


def answer(name: str, figure: int) -> Said:
    row = Row(name, "kernel", "tpu-v4", 1024, 2048, figure)
    return Said(code=10240, vmem=(row,), costs=dict(COSTS))


def test_what_lies_outside_is_named_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"matmul": answer("matmul", 4096), "JAX's matmul": answer("jax", 1024)}
    monkeypatch.setattr(tpu_compiled, "ask", lambda name, *_: said[name])
    counts = {"figures": 0, "inside": 0}
    kept: list[dict[str, Any]] = []
    widths: list[float] = []
    *_, line = tpu_compiled.lines(["matmul"], ["tpu-v4"], counts, widths, kept.append)
    assert line == "| matmul | tpu-v4 | 10 | 10 | 4 (1 to 2, 25%, OUTSIDE) | 1 | 1.0 | 1.0 | 3.0 | 3.0 |"
    assert counts == {"figures": 1, "inside": 0} and widths == [0.25]
    assert [(one["whose"], one["costs"]) for one in kept] == [
        ("typedpallas", COSTS),
        ("jax", COSTS),
    ]


def test_a_refusal_stands_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpu_compiled, "ask", lambda *_: Said(refusal="no such product"))
    counts = {"figures": 0, "inside": 0}
    *_, line = tpu_compiled.lines(["softmax"], ["tpu-v2"], counts, [], lambda _: None)
    assert line == "| softmax | tpu-v2 | no: no such product |  |  |  |  |  |  |  |"
