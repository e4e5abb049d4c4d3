"""Every target's own compiler takes a kernel, and says what it made of it."""

import jax.numpy as jnp
import pytest
from compile_kernels import (
    copied_by_dma,
    direct_gmem,
    needs,
    needs_gpu,
    needs_tpu,
    passed_round,
    pipelined_gpu,
    scaled,
    shape,
)

from typedpallas import compilers
from typedpallas.chips import get, targets


@pytest.mark.parametrize("name", [pytest.param(n, marks=needs(get(n).machine)) for n in targets()])
def test_a_kernel_compiles_for_every_target(name: str) -> None:
    fn = direct_gmem if name == "t4" else scaled((16, 128))  # Triton begins with compute capability 8.0
    done = compilers.compile(fn, shape(64, 128), target=name)
    assert done.target == name
    assert done.compiler == compilers.compiler_version(name)
    assert done.memory.arguments == done.memory.outputs == 64 * 128 * 4
    assert "HloModule" in done.module
    assert not done.cached
    if get(name).machine == "tpu":
        assert done.memory.code is not None and done.memory.code > 1000
    else:
        assert ".version" in done.kernels[0].ptx


@needs_tpu
def test_a_dma_kernel_compiles() -> None:
    assert compilers.compile(copied_by_dma, shape(64, 128), target="tpu-v6e").memory.outputs == 64 * 128 * 4


@needs_tpu
def test_several_devices_compile_together() -> None:
    lowered = compilers.lower_for(passed_round("tpu-v5e", 4), shape(32, 128), target="tpu-v5e")
    assert lowered.partitions == 4
    assert compilers.compile_lowered(lowered).memory.outputs == 8 * 128 * 4


@needs_tpu
def test_more_devices_than_described_are_unavailable_without_a_pip_line() -> None:
    with pytest.raises(compilers.CompileError, match="for 64 devices") as caught:
        compilers.compile(passed_round("tpu-v5e", 64), shape(512, 128), target="tpu-v5e")
    assert caught.value.kind == "unavailable" and "pip" not in caught.value.reason


@needs_gpu
@pytest.mark.parametrize("name", ["a10g", "l40s"])
def test_a_card_that_jax_does_not_list_says_what_it_was_compiled_as(name: str) -> None:
    (note,) = compilers.lower_for(scaled(), shape(64, 128), target=name).notes
    assert get(name).compiled_as in note and get(name).compute_capability in note


@needs_gpu
def test_compute_capabilities_do_not_disturb_each_other() -> None:
    """The first chip compiled in a process fixes ptxas's target: h100 then b200 used to fail."""
    for name, machine in (("h100", "sm_90a"), ("b200", "sm_100a"), ("a100", "sm_80"), ("h100", "sm_90a")):
        done = compilers.compile(direct_gmem, shape(64, 128), target=name)
        assert f".target {machine}\n" in done.kernels[0].ptx


@needs_gpu
def test_a_worker_needs_nothing_from_this_process_for_mosaic_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX puts the place of Mosaic GPU's run-time library in the environment, but only once it is imported."""
    compilers.shutdown()
    monkeypatch.delenv("MOSAIC_GPU_RUNTIME_LIB_PATH", raising=False)
    assert compilers.compile(pipelined_gpu, shape(192, 128), target="h100").kernels
    compilers.shutdown()


@needs_gpu
def test_mosaic_gpu_says_its_registers() -> None:
    done = compilers.compile(pipelined_gpu, shape(128, 128), target="h100")
    assert "registers" in done.kernels[0].assembler


@needs_gpu
@needs_tpu
def test_many_at_once_keep_their_order_and_report_progress() -> None:
    fits, ragged = scaled((16, 128)), scaled((12, 100))
    cells = [(fn, name) for name in ("h100", "tpu-v5e", "a100", "tpu-7x") for fn in (fits, ragged)]
    requests = [compilers.Request(fn, (shape(96, 128, dtype=jnp.float32),), name) for fn, name in cells]
    seen: dict[int, compilers.Outcome] = {}
    outcomes = compilers.compile_many(requests, progress=seen.__setitem__)
    assert [seen[i] for i in range(len(cells))] == outcomes
    for (fn, name), outcome in zip(cells, outcomes, strict=True):
        assert outcome.target == name
        assert isinstance(outcome, compilers.Compiled if fn is fits else compilers.CompileError)
