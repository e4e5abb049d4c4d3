"""Each rule's defect and fix: flagged and clean at every level that the example names, judged by the compiler."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rule_examples
from rule_examples import Case

import typedpallas as tp
from typedpallas import rules

TYPED = [rule for rule in rule_examples.RULES if "types" in rule.example.levels]
RUNNING = [rule for rule in rule_examples.RULES if rule.example.runs]


@pytest.mark.parametrize("case", rule_examples.cases("trace"), ids=str)
def test_the_trace_flags_the_defect_and_nothing_else(case: Case, folder: Path) -> None:
    bad = rule_examples.load(folder, case.rule, "bad")
    report = tp.check(bad.run, *bad.ARGS, target=case.target)
    verdict = case.rule.example.verdict
    assert {item.rule for item in report.diagnostics if item.verdict == verdict} == {case.rule.slug}, str(report)
    assert report.ok == (verdict == "open")
    for item in report.diagnostics:
        assert item.help and item.message and item.level == "trace"
        assert Path(item.file).name == rule_examples.file_name(case.rule, "bad"), item
        assert item.line > 0


@pytest.mark.parametrize("case", rule_examples.cases(), ids=str)
def test_the_trace_passes_the_fix(case: Case, folder: Path) -> None:
    good = rule_examples.load(folder, case.rule, "good")
    report = tp.check(good.run, *good.ARGS, target=case.target)
    assert report.ok and not report.diagnostics, str(report)
    assert report.kernels


@pytest.mark.parametrize("rule", RUNNING, ids=lambda rule: rule.slug)
@pytest.mark.usefixtures("interpreted")
def test_the_fix_computes_what_its_reference_says(rule: rules.Rule, folder: Path) -> None:
    good = rule_examples.load(folder, rule, "good")
    arrays = rule_examples.inputs(good.ARGS)
    want = jax.tree.leaves(good.reference(*arrays))
    got = jax.tree.leaves(good.run(*arrays))
    for w, g in zip(want, got, strict=True):
        assert w.dtype == g.dtype and w.shape == g.shape
        np.testing.assert_allclose(jnp.asarray(g, jnp.float32), jnp.asarray(w, jnp.float32), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("rule", TYPED, ids=lambda rule: rule.slug)
def test_mypy_flags_the_defect(rule: rules.Rule, mypy_says: dict[str, list[str]]) -> None:
    assert set(mypy_says[rule_examples.file_name(rule, "bad")]) == {rule.slug}


@pytest.mark.parametrize("rule", TYPED, ids=lambda rule: rule.slug)
def test_mypy_passes_the_fix(rule: rules.Rule, mypy_says: dict[str, list[str]]) -> None:
    assert mypy_says[rule_examples.file_name(rule, "good")] == []


@pytest.mark.compiler
@pytest.mark.parametrize("case", rule_examples.cases("trace"), ids=str)
def test_the_compiler_agrees_about_the_defect(case: Case, folder: Path) -> None:
    bad = rule_examples.load(folder, case.rule, "bad")
    verdict = "accepts"
    try:
        tp.compile(bad.run, *bad.ARGS, target=case.target)
    except tp.CompileError as error:
        _skip_without_compiler(error)
        verdict = "crashes" if error.kind == "crashed" else "refuses"
    except (ValueError, TypeError, tp.PlacementError):
        verdict = "refuses"
    assert verdict == case.rule.example.compiler


@pytest.mark.compiler
@pytest.mark.parametrize("case", rule_examples.cases(), ids=str)
def test_the_compiler_takes_the_fix(case: Case, folder: Path) -> None:
    good = rule_examples.load(folder, case.rule, "good")
    try:
        tp.compile(good.run, *good.ARGS, target=case.target)
    except tp.CompileError as error:
        _skip_without_compiler(error)
        raise


def _skip_without_compiler(error: tp.CompileError) -> None:
    if error.kind == "unavailable":
        pytest.skip(str(error))
