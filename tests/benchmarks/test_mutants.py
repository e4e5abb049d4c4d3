"""The benchmark of mutants: its table is sound, and a small sample of it is judged anew."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import ast
from collections import Counter
from pathlib import Path

import pytest

import typedpallas as tp
from benchmarks.mutants import report
from benchmarks.mutants.judge import Record
from benchmarks.mutants.subjects import FOLDER, GROUPS, Module, Subject, execute, mutants, originals
from typedpallas import chips

ORIGINALS = {subject.name: subject for subject in originals()}
MUTANTS = {subject.name: subject for subject in mutants()}


def _module(subject: Subject, folder: Path) -> Module:
    return execute(subject.source, folder / "subject.py")


def test_there_are_enough_of_each_kind() -> None:
    assert len(ORIGINALS) >= 12
    assert len(MUTANTS) >= 80
    assert set(Counter(subject.group for subject in MUTANTS.values())) == set(GROUPS)


def test_every_table_belongs_to_an_original_and_every_original_has_one() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(ORIGINALS)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_another_program_than_its_original(name: str) -> None:
    mutant = MUTANTS[name]
    assert ast.dump(ast.parse(mutant.source)) != ast.dump(ast.parse(ORIGINALS[mutant.original].source))


def test_names_are_given_once() -> None:
    names = [subject.name for subject in mutants()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ORIGINALS)
def test_an_original_passes_on_every_chip_of_its(name: str, tmp_path: Path) -> None:
    module = _module(ORIGINALS[name], tmp_path)
    refuted = {
        (target, item.rule, item.message)
        for target in module.targets
        for item in tp.check(module.run, *module.args, target=target).diagnostics
        if item.verdict == "refuted"
    }
    assert not refuted
    assert all(target in chips.targets() for target in module.targets)


SAMPLE = (
    "scaled_relu/step past the end",
    "scaled_relu/half a lane tile",
    "softmax/last rows left out",
    "matmul/blocks too large",
    "matmul/never zeroed",
    "cumulative_sum/steps in any order",
    "cumulative_sum/one row too many",
    "double_buffered/right operand in HBM",
    "double_buffered/last result not waited for",
    "grouped_matmul/summed axis in the middle",
    "embedding/number past the end",
    "transpose/alias of another shape",
    "triton_softmax/block of a thousand",
    "triton_matmul/too much shared memory",
    "mosaic_gpu_matmul/on Blackwell",
    "typed_scaled_relu/stores to the input",
)
"""At least one of most groups."""


@pytest.mark.parametrize("name", SAMPLE)
def test_a_mutant_is_refuted_by_the_rule_that_names_its_defect(name: str, tmp_path: Path) -> None:
    module = _module(MUTANTS[name], tmp_path)
    found = tp.check(module.run, *module.args, target=module.targets[0])
    assert {item.rule for item in found.diagnostics if item.verdict == "refuted"} & set(MUTANTS[name].rules)


def _record(**said: str) -> Record:
    answers = dict.fromkeys(report.STAGES, "ok") | said
    return Record("a/b", "tpu-v5e", answers, trace=("write-race",))


def test_the_table_counts_who_notices() -> None:
    mutant = Subject("a", "a/b", "", "race", ("write-race",))
    rows = [(mutant, _record(machine="race")), (mutant, _record())]
    line = next(line for line in report.table(rows).splitlines() if line.startswith("race"))
    assert line.split() == ["race", "2", "0", "0", "0", "1", "0", "2", "2"]
    assert "1 pass everything else; typedpallas notices 1 of them" in report.table(rows)


def test_an_original_that_anybody_refuses_is_an_alarm() -> None:
    right = Subject("a", "a", "")
    quiet = Record("a", "tpu-v5e", dict.fromkeys(report.STAGES, "ok"))
    assert report.alarms([(right, quiet)]) == []
    assert len(report.alarms([(right, _record())])) == 1
    assert len(report.alarms([(right, Record("a", "tpu-v5e", quiet.answers | {"hlo": "wrong"}))])) == 1
