"""Mistakes from public reports: what we say of each, and never a word about its fix."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import typedpallas as tp
from cases_public import blocks, copies, memory, registry, spaces, triton, values
from cases_public.registry import Case, Side
from typedpallas import rules

MODULES = (blocks, copies, memory, spaces, triton, values)
ALL = tuple(registry.CASES.values())
each_case = pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)


@contextmanager
def _width(case: Case) -> Iterator[None]:
    with jax.enable_x64(case.x64):
        yield


def _made(case: Case, side: Side) -> tuple[Callable[..., Any], Sequence[Any]]:
    made = case.build(side)
    return made if isinstance(made, tuple) else (made, case.args)


def _refuted(case: Case, side: Side, verdict: str = "refuted") -> set[str]:
    with _width(case):
        fn, args = _made(case, side)
        report = tp.check(fn, *args, target=case.targets)
    return {item.rule for item in report.diagnostics if item.verdict == verdict}


def test_there_are_54_cases_each_with_its_report() -> None:
    assert len(ALL) == 54
    assert len({case.report for case in ALL}) == 54
    assert all(case.build.__doc__ for case in ALL)


@each_case
def test_what_is_caught_has_a_rule(case: Case) -> None:
    if case.caught and case.rule != "clean":
        assert case.rule in rules.all_rules()


@each_case
def test_the_fix_is_never_flagged(case: Case) -> None:
    assert _refuted(case, "good") == set()


@each_case
def test_the_mistake_is_flagged_by_its_rule_or_listed_as_not_yet(case: Case) -> None:
    found = _refuted(case, "bad")
    if case.rule == "clean":
        assert found == set()
    elif case.caught:
        assert case.rule in (found if case.verdict == "refuted" else _refuted(case, "bad", "open"))
    else:
        assert case.rule not in found, f"{case.name} is caught now: say so in its table entry"
        assert found == set()


def _inputs(case: Case, args: Sequence[Any]) -> Sequence[Any]:
    if case.inputs is not None:
        return [jnp.asarray(value, shape.dtype) for value, shape in zip(case.inputs, args, strict=True)]
    random = np.random.default_rng(0)
    made = []
    for shape in args:
        if jnp.issubdtype(shape.dtype, jnp.floating):
            made.append(jnp.asarray(random.standard_normal(shape.shape), shape.dtype))
        else:
            made.append(jnp.asarray(random.integers(0, 2, shape.shape), shape.dtype))
    return made


@pytest.mark.parametrize("case", [c for c in ALL if c.reference is not None], ids=lambda case: case.name)
def test_the_fix_computes_the_right_numbers(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    from jax.experimental import pallas as pl

    assert case.reference is not None
    monkeypatch.setattr(pl, "pallas_call", functools.partial(pl.pallas_call, interpret=True))
    with _width(case):
        fn, args = _made(case, "good")
        inputs = _inputs(case, args)
        want = case.reference(*inputs)
        got = fn(*inputs)
    assert got.shape == want.shape
    wide = functools.partial(np.asarray, dtype=np.float64)
    np.testing.assert_allclose(wide(got), wide(want), rtol=case.tolerance, atol=case.tolerance)


@pytest.mark.compiler
@each_case
def test_the_compiler_takes_the_fix(case: Case) -> None:
    with _width(case):
        fn, args = _made(case, "good")
        for target in case.targets:
            _compiled(fn, args, target)


@pytest.mark.compiler
@pytest.mark.parametrize("case", [c for c in ALL if c.rule == "clean"], ids=lambda case: case.name)
def test_the_compiler_takes_what_is_no_mistake_any_more(case: Case) -> None:
    with _width(case):
        fn, args = _made(case, "bad")
        for target in case.targets:
            _compiled(fn, args, target)


def _compiled(fn: Callable[..., Any], args: Sequence[Any], target: str) -> None:
    try:
        tp.compile(fn, *args, target=target)
    except tp.CompileError as error:
        if error.kind == "unavailable":
            pytest.skip(str(error))
        raise
