"""The TPU kernels lower to the modules of plain Pallas code: types cost nothing."""

import io
from collections.abc import Callable
from typing import Any

import jax
import pytest
import tpu_twins
from jax.experimental import pallas as pl

import typedpallas as tp
from benchmarks.tpu_kernels import KERNELS
from typedpallas.compilers.ambient import target_context
from typedpallas.compilers.kernel_text import kernels

BY_HAND = {
    "matmul": tpu_twins.matmul,
    "matmul, int8 with scales": tpu_twins.scaled_matmul,
    "attention, causal": tpu_twins.attention,
    "grouped matmul": tpu_twins.grouped_matmul,
    "softmax": tpu_twins.softmax,
    "rms_norm": tpu_twins.rms_norm,
}
"""Written apart. The other kernels are called through `tp.pallas_call`, whose twin is Pallas's own."""


def modules(fn: Callable[..., Any], arrays: tuple[Any, ...], target: str) -> list[tuple[str, str]]:
    with target_context(target):
        module = jax.jit(lambda *a: fn(*a)).trace(*arrays).lower(lowering_platforms=("tpu",)).compiler_ir()
    code = io.BytesIO()
    module.operation.write_bytecode(code)
    return [(kernel.name, kernel.text) for kernel in kernels(code.getvalue())]


@pytest.mark.parametrize("target", ["tpu-v5e", "tpu-7x"])
@pytest.mark.parametrize("name", BY_HAND)
def test_same_module_as_by_hand(name: str, target: str) -> None:
    kernel = KERNELS[name]
    arrays = kernel.on(target)
    typed = modules(kernel.ours, arrays, target)
    assert len(typed) == 1
    assert typed == modules(BY_HAND[name], arrays, target)


@pytest.mark.parametrize("name", ["ragged paged attention", "grouped matmul, gradients"])
def test_same_module_as_of_pallas(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = KERNELS[name]
    arrays = kernel.on("tpu-v5e")
    typed = modules(kernel.ours, arrays, "tpu-v5e")
    monkeypatch.setattr(tp, "pallas_call", pl.pallas_call)
    assert typed == modules(kernel.ours, arrays, "tpu-v5e")
    assert len(typed) == (1 if name == "ragged paged attention" else 3)
