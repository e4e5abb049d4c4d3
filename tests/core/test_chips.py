"""Targets as data: complete, consistent with each other and, where JAX knows the chip too, with JAX."""

import pytest

from typedpallas import chips
from typedpallas.chips import GpuTarget, TpuTarget, UnknownTarget

EVERY = [chips.get(name) for name in chips.targets()]
TPUS = [target for target in EVERY if isinstance(target, TpuTarget)]
GPUS = [target for target in EVERY if isinstance(target, GpuTarget)]


def test_the_promised_chips_are_there() -> None:
    assert {"tpu-v2", "tpu-v3", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-7x"} <= {t.name for t in TPUS}
    assert {"a100", "a10g", "l4", "l40s", "h100", "h200", "b200", "b300", "t4"} <= {t.name for t in GPUS}
    assert [*TPUS, *GPUS] == EVERY, "TPUs come first"


def test_names_and_aliases_are_told_apart() -> None:
    names = [name for target in EVERY for name in (target.name, *target.aliases)]
    assert len(names) == len(set(names))
    for target in EVERY:
        assert all(chips.get(alias) is target for alias in target.aliases)


def test_an_unknown_name_lists_those_that_are_known() -> None:
    with pytest.raises(UnknownTarget, match=r"unknown target `gtx`: expected one of .*tpu-v5e.*h100"):
        chips.get("gtx")


@pytest.mark.parametrize("target", EVERY, ids=lambda target: target.name)
def test_a_device_leads_back_to_its_target(target: chips.Target) -> None:
    found = chips.for_device_kind(target.device_kind)
    assert found is not None and found.device_kind == target.device_kind
    assert chips.for_device_kind("Some Other Device") is None


@pytest.mark.parametrize("target", TPUS, ids=lambda target: target.name)
def test_a_tpu_agrees_with_jax(target: TpuTarget) -> None:
    pltpu = pytest.importorskip("jax.experimental.pallas.tpu")
    version = next((v for v in pltpu.ChipVersion if v.value.casefold() in (target.chip, f"tpu{target.chip}")), None)
    assert version is not None, f"JAX has no chip {target.chip}"
    info = pltpu.get_tpu_info_for_chip(version, target.cores)
    assert (info.generation, info.num_lanes, info.num_sublanes) == (target.generation, target.lanes, target.sublanes)
    assert info.smem_capacity_bytes == target.smem_bytes
    assert target.vmem_default_bytes <= target.vmem_most_bytes <= info.vmem_capacity_bytes * info.num_cores


@pytest.mark.parametrize("target", GPUS, ids=lambda target: target.name)
def test_a_gpu_is_consistent(target: GpuTarget) -> None:
    assert f"{target.capability[0]}.{target.capability[1]}" == target.compute_capability
    assert 48 * 1024 < target.shared_memory_bytes <= target.shared_memory_per_core_bytes
    assert target.memory_bytes > target.l2_bytes > target.shared_memory_bytes


LEFT_OUT = {"NVIDIA Thor", "NVIDIA GB10", "NVIDIA RTX PRO 4500", "NVIDIA RTX PRO 5000", "NVIDIA RTX PRO 6000"}
"""Mosaic GPU's code for them is not assembled here: ptxas takes ``sm_120a`` for another chip than ``sm_120``."""
UNKNOWN = {"NVIDIA VR200"}
"""Of JAX 0.12."""


def test_every_gpu_that_pallas_knows_is_a_target_of_its_compute_capability() -> None:
    gpu_info = pytest.importorskip("jax._src.pallas.triton.gpu_info")
    for version in gpu_info.GpuVersion:
        found = chips.for_device_kind(version.value)
        if version.value in LEFT_OUT | UNKNOWN:
            assert found is None
            continue
        assert isinstance(found, GpuTarget), version
        assert found.compute_capability == gpu_info.get_gpu_info_from_version(version).arch_name


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A30", "a100"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA H100 PCIe", "h100"),
        ("NVIDIA GH200 480GB", "h200"),
        ("NVIDIA GB200", "b200"),
        ("NVIDIA L40", "l40s"),
        ("NVIDIA L4", "l4"),
        ("Tesla T4", "t4"),
    ],
)
def test_a_card_of_the_same_kind_is_its_target(kind: str, name: str) -> None:
    found = chips.for_device_kind(kind)
    assert found is not None and found.name == name
