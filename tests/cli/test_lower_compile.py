"""``typedpallas lower`` and ``typedpallas compile``."""

import json
from pathlib import Path

import pytest

KERNELS = str(Path(__file__).with_name("kernels.py"))
AVALS = "f32[32,128]"


def _needs(package: str, extra: str) -> None:
    pytest.importorskip(package, reason=f'pip install "typedpallas[{extra}]"')


@pytest.mark.parametrize(
    ("stage", "target", "marks"),
    [
        ("jaxpr", "tpu-v5e", ["pallas_call", "lambda"]),
        ("stablehlo", "tpu-v5e", ["tpu_custom_call", "func.func public @main"]),
        ("kernel", "tpu-v5e", ["// kernel _triple (mosaic_tpu, tpu-v5e)", "vector.load", "#tpu.memory_space<vmem>"]),
        ("kernel", "h100", ["// kernel _triple (triton, h100)", "tt.load", "tt.store"]),
    ],
)
def test_stages(cli, stage: str, target: str, marks: list[str]) -> None:
    ran = cli("lower", f"{KERNELS}:anywhere", "--args", AVALS, "--target", target, "--stage", stage)
    assert (ran.code, ran.err) == (0, "")
    assert all(mark in ran.out for mark in marks)


@pytest.mark.compiler
def test_ptx(cli) -> None:
    _needs("jax_cuda13_plugin", "gpu")
    ran = cli("lower", f"{KERNELS}:anywhere", "--args", AVALS, "--target", "h100", "--stage", "ptx")
    assert ran.code == 0
    assert ".target sm_90" in ran.out and ".visible .entry _triple" in ran.out


@pytest.mark.parametrize(
    ("what", "target", "stage", "said"),
    [
        ("anywhere", "tpu-v5e", "ptx", "tpu-v5e is no GPU"),
        ("anywhere", "tpu-v7", "kernel", "unknown target `tpu-v7`: did you mean"),
        ("no_kernel", "tpu-v5e", "kernel", "launches no kernel"),
        ("from_hbm", "tpu-v5e", "kernel", "Loads are only allowed on VMEM and SMEM"),
        ("raises", "tpu-v5e", "jaxpr", "my own mistake"),
    ],
)
def test_there_is_nothing_to_print(cli, what: str, target: str, stage: str, said: str) -> None:
    ran = cli("lower", f"{KERNELS}:{what}", "--args", AVALS, "--target", target, "--stage", stage)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.compiler
def test_compile(cli) -> None:
    _needs("libtpu", "tpu")
    ran = cli("compile", f"{KERNELS}:from_vmem", "--args", AVALS, "--target", "tpu-v5e")
    assert ran.code == 0
    assert "compiled, " in ran.out and "compiled with libtpu" in ran.out
    ran = cli("compile", f"{KERNELS}:from_hbm", "--args", AVALS, "--target", "tpu-v5e", "--format", "json")
    assert ran.code == 1
    (found,) = json.loads(ran.out)["targets"]
    assert (found["target"], found["verdict"]) == ("tpu-v5e", "refused")
    assert "VMEM and SMEM" in found["reason"]


def test_compile_without_a_compiler_says_what_to_install(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from typedpallas.compilers import versions

    monkeypatch.setattr(versions, "installed", lambda machine: None)
    ran = cli("compile", f"{KERNELS}:anywhere", "--args", AVALS, "--target", "tpu-v5e,h100")
    assert ran.code == 2
    assert 'pip install "typedpallas[tpu]"' in ran.out
    assert 'pip install "typedpallas[gpu]"' in ran.out
