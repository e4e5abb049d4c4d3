"""A few generated Mosaic GPU kernels: the checker agrees with the compiler and the oracle about each."""

import pytest

import typedpallas as tp
from benchmarks.agreement.families import FAMILIES
from benchmarks.agreement.judge import draw, judge

_FAMILIES = ("mosaic_gpu", "mosaic_gpu_copies", "mosaic_gpu_memory", "mosaic_gpu_pipeline")


@pytest.mark.compiler
@pytest.mark.parametrize("family", _FAMILIES)
@pytest.mark.parametrize("target", ["a100", "h100", "b200"])
def test_a_generated_kernel_is_agreed_on(family: str, target: str) -> None:
    for seed in (7, 8):
        record = judge(family, seed, target)
        if record.compiler == "unavailable":
            pytest.skip("no compiler for it here")
        assert record.kind == "agree", record


@pytest.mark.parametrize("family", _FAMILIES)
def test_a_seed_stands_for_one_kernel(family: str) -> None:
    assert FAMILIES[family].machine == "gpu"
    assert draw(family, 3).on("h100").source() == draw(family, 3).on("h100").source()
    assert len({draw(family, seed).source() for seed in range(10)}) > 5


def test_a_product_is_written_for_the_matrix_unit_of_the_target() -> None:
    case = draw("mosaic_gpu", 0)
    assert "wgmma" in case.on("h100").source() and "tcgen05_mma" in case.on("b200").source()
    assert set(tp.targets()) >= {"h100", "b200"}
