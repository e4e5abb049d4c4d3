"""The benchmark of kernels that nobody here wrote: its data is sound, and a small sample is judged anew."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest

from benchmarks.real_kernels import calls as calls
from benchmarks.real_kernels import devices, expected
from benchmarks.real_kernels.entry import CALLS
from benchmarks.real_kernels.expected import Expected
from benchmarks.real_kernels.judge import Record, judge
from benchmarks.real_kernels.report import kind
from typedpallas import chips
from typedpallas.rules import by_slug

ROWS = expected.load()


def test_every_call_is_expected_on_each_of_its_chips_and_nothing_else_is() -> None:
    assert len(CALLS) == 105
    assert {(call.name, target) for call in CALLS.values() for target in call.targets} == set(ROWS)


def test_every_expected_rule_exists() -> None:
    for row in ROWS.values():
        if row.rule:
            assert row.compiler == "refused"
            by_slug(row.rule)


@pytest.mark.parametrize(
    "name, target",
    [
        ("jax/matmul/matmul#int8", "tpu-v5e"),
        ("jax/paged_attention/paged_attention#int8_kv", "tpu-7x"),
        ("jax/all_gather/all_gather", "tpu-v5e"),
        ("jax/gpu.softmax/softmax", "a100"),
        ("jax/hopper_matmul_mgpu/matmul", "b200"),
        ("jax/hopper_matmul_mgpu/matmul#smem_over", "h100"),
        ("jax/blackwell_matmul_mgpu/matmul_kernel", "h100"),
    ],
)
def test_a_call_is_judged_as_the_compiler_judges_it(name: str, target: str) -> None:
    record = judge(name, target, "", compiling=False)
    assert record.kernels or record.checked == "refuted"
    assert kind(record, ROWS[name, target]) == "agree"


def test_a_call_without_its_package_is_skipped() -> None:
    record = judge("recurrentgemma/scan/linear_scan", "tpu-v5e", "", compiling=False)
    assert record.checked in ("skipped", "clean", "open")


def test_whoever_asks_for_devices_is_told_of_the_target() -> None:
    before = jax.devices()
    with devices.described(chips.get("h100")):
        assert jax.devices()[0].core_count == 132
        assert jax.devices()[0].platform == "gpu"
        assert jax.default_backend() == "gpu"
    assert jax.devices() == before


@pytest.mark.parametrize(
    "checked, compiler, rules, rule, wanted",
    [
        ("clean", "accepted", (), "", "agree"),
        ("open", "accepted", (), "", "open"),
        ("refuted", "accepted", ("write-race",), "", "false-alarm"),
        ("refuted", "refused", ("write-race",), "vmem-overflow", "wrong-rule"),
        ("refuted", "refused", ("vmem-overflow",), "vmem-overflow", "agree"),
        ("clean", "refused", (), "", "miss"),
        ("clean", "", (), "", "unasked"),
        ("untraced", "untraced", (), "", "untraced"),
        ("skipped", "accepted", (), "", "skipped"),
    ],
)
def test_a_record_has_one_kind(checked: str, compiler: str, rules: tuple[str, ...], rule: str, wanted: str) -> None:
    record = Record("jax/matmul/matmul", "tpu-v5e", checked, rules=rules, kernels=1)
    assert kind(record, Expected(compiler, 1, "", rule)) == wanted  # type: ignore[arg-type]
