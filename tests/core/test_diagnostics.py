"""A diagnostic in each of its forms: terminal text, JSON, GitHub annotations, SARIF, exception."""

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from typedpallas import rules
from typedpallas.diagnostics import Diagnostic, Place, PlacementError, diagnose, headline, render
from typedpallas.rules.base import Finding

FINDING = Finding(
    rule="load-from-hbm",
    verdict="refuted",
    data={
        "name": "x",
        "space": "tpu.HBM",
        "op": "load",
        "verb": "load from",
        "expected": "a copy",
        "found": "a load",
    },
    expected="a copy",
    found="a load",
    witness="BM = 8",
    notes=("the vector unit reads VMEM",),
    help="copy it first",
)
PLACE = Place(file="kernels/matmul.py", line=31, column=9)


def made(**changes: Any) -> Diagnostic:
    plain = diagnose(FINDING, level="trace", target="tpu-v5e", place=PLACE, kernel="matmul")
    return Diagnostic(**{**asdict(plain), **changes})


def test_a_finding_becomes_a_diagnostic_at_its_place() -> None:
    found = made()
    assert (found.rule, found.verdict, found.level, found.target) == ("load-from-hbm", "refuted", "trace", "tpu-v5e")
    assert (found.file, found.line, found.column) == ("kernels/matmul.py", 31, 9)
    assert found.message == headline(FINDING) and "`x`" in found.message
    assert (found.expected, found.found, found.help) == ("a copy", "a load", "copy it first")


def test_text() -> None:
    at = "kernels/matmul.py:31:9"
    assert str(made(message="cannot load `x`")).splitlines() == [
        f"{at}: error: cannot load `x` (on tpu-v5e)  [load-from-hbm]",
        f"{at}: note: for example BM = 8",
        f"{at}: note: the vector unit reads VMEM",
        f"{at}: help: copy it first",
    ]
    bare = made(message="m", target=None, file="", witness="", notes=(), help="", verdict="open")
    assert str(bare) == "<unknown>: open: m  [load-from-hbm]"


def test_an_open_finding_says_so() -> None:
    undecided = Finding(rule=FINDING.rule, verdict="open", data=FINDING.data)
    assert headline(undecided) == f"not decided: {headline(FINDING)}"


def test_the_exception_carries_and_shows_every_diagnostic() -> None:
    both = [made(line=1), made(line=2)]
    error = PlacementError(both)
    assert error.diagnostics == tuple(both)
    assert str(error) == f"{both[0]}\n{both[1]}"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
diagnostics = st.builds(
    made,
    message=texts,
    file=texts,
    line=st.integers(0, 10_000),
    column=st.integers(0, 200),
    witness=texts,
    notes=st.lists(texts, max_size=2).map(tuple),
    help=texts,
    verdict=st.sampled_from(["refuted", "open"]),
    target=st.sampled_from([None, "h100"]),
)


@given(found=st.lists(diagnostics, max_size=3))
def test_json_keeps_everything(found: list[Diagnostic]) -> None:
    read = json.loads(render(found, "json"))
    assert [Diagnostic(**{**item, "notes": tuple(item["notes"])}) for item in read] == found


@given(found=st.lists(diagnostics, min_size=1, max_size=3))
def test_a_github_annotation_is_one_line(found: list[Diagnostic]) -> None:
    lines = render(found, "github").split("\n")
    assert len(lines) == len(found)
    for line, item in zip(lines, found, strict=True):
        assert line.startswith("::error " if item.verdict == "refuted" else "::notice ")
        properties = line.removeprefix("::error ").removeprefix("::notice ").partition("::")[0]
        assert "\r" not in line
        assert [part.partition("=")[0] for part in properties.split(",")] == ["file", "line", "col", "title"]


@given(found=st.lists(diagnostics, max_size=3))
def test_sarif_names_each_rule_once_and_each_place(found: list[Diagnostic]) -> None:
    read = json.loads(render(found, "sarif"))
    (run,) = read["runs"]
    declared = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert read["version"] == "2.1.0" and declared == sorted({item.rule for item in found})
    for result, item in zip(run["results"], found, strict=True):
        place = result["locations"][0]["physicalLocation"]
        assert result["ruleId"] in declared and item.message in result["message"]["text"]
        assert place["artifactLocation"]["uri"] == item.file
        assert place["region"]["startLine"] >= 1 and place["region"]["startColumn"] >= 1


def test_nothing_renders_to_nothing() -> None:
    assert render([]) == "" and json.loads(render([], "json")) == []


def test_rules_are_found_by_slug_and_a_near_miss_is_named() -> None:
    assert rules.by_slug("load-from-hbm").slug == "load-from-hbm"
    with pytest.raises(KeyError, match="did you mean `load-from-hbm`"):
        rules.by_slug("load-from-hbn")
    with pytest.raises(KeyError, match="no rule is called `zzz`"):
        rules.by_slug("zzz")
