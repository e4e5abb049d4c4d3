"""Kernels that the compilers take are never refuted."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import library_calls
from library_calls import Call

import typedpallas as tp

each_call = pytest.mark.parametrize("call", library_calls.CALLS, ids=lambda call: call.name)


@each_call
def test_a_library_kernel_is_not_refuted_where_it_compiles(call: Call) -> None:
    fn, args = call.build()
    report = tp.check(fn, *args, target=call.targets)
    assert report.kernels, "no kernel was found, so nothing was judged"
    assert report.ok, str(report)


@pytest.mark.compiler
@each_call
def test_a_library_kernel_does_compile(call: Call) -> None:
    """On the last of its targets; what makes the test above mean something."""
    fn, args = call.build()
    try:
        tp.compile(fn, *args, target=call.targets[-1])
    except tp.CompileError as error:
        if error.kind == "unavailable":
            pytest.skip(str(error))
        raise


@pytest.mark.parametrize(
    "name, target, rule",
    [
        ("hopper_matmul", "b200", "primitive-not-on-target"),
        ("blackwell_matmul", "h100", "space-not-on-target"),
    ],
)
def test_a_library_kernel_is_refuted_on_the_chip_that_cannot_run_it(name: str, target: str, rule: str) -> None:
    call = next(call for call in library_calls.CALLS if call.name == name)
    fn, args = call.build()
    report = tp.check(fn, *args, target=target)
    assert rule in {item.rule for item in report.diagnostics if item.verdict == "refuted"}
