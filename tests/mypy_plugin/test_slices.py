"""Starts of slices at level 1: proved, refuted for all sizes, or open; the trace and the compiler are asked too."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import importlib.util
import re

import harness
import pytest

import typedpallas as tp

FOLDER = harness.HERE / "slices"
CASES = sorted(FOLDER.glob("*.py"))
TARGETS = ("tpu-v5e", "tpu-7x")
_EXPECTED = re.compile(r"# E: (.+)$")


def _module(name):
    spec = importlib.util.spec_from_file_location(f"slices_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _mypy(**environment):
    done = harness.mypy(CASES, environment=environment)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return harness.messages(done.stdout)


@pytest.fixture(scope="module")
def said():
    return _mypy(TYPEDPALLAS_TARGETS=",".join(TARGETS), TYPEDPALLAS_SHOW_OPEN="1")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_errors_and_open_questions_where_the_case_says(path, said):
    lines = list(enumerate(path.read_text().splitlines(), start=1))
    wanted = {number: match[1] for number, line in lines if (match := _EXPECTED.search(line))}
    errors = [m for m in said if m.file == path.name and m.kind == "error"]
    assert sorted(m.line for m in errors) == sorted(wanted)
    for message in errors:
        assert message.code == "unaligned-slice"
        assert wanted[message.line] == message.code or wanted[message.line] in message.text, message
        assert "(on tpu-v5e, tpu-7x)" in message.text
    undecided = {m.line for m in said if m.file == path.name and "open: whether this slice" in m.text}
    if path.stem != "right":
        assert undecided == {number for number, line in lines if line.endswith("# open")}


def test_examples_are_numbers_to_check_by_hand(said):
    notes = [m.text for m in said if m.file == "wrong.py" and m.text.startswith("for example")]
    assert any("program_id(0) = 1 it starts at 4 = 0*8 + 4" in note for note in notes), notes
    assert any("with BM = 8" in note for note in notes), notes


def test_nothing_is_said_without_a_target():
    assert [m for m in _mypy() if m.kind == "error"] == []


RIGHT, WRONG, UNDECIDED = (_module(name).LAUNCHES for name in ("right", "wrong", "undecided"))


@pytest.mark.parametrize("name", [*RIGHT, *UNDECIDED])
def test_what_passes_compiles(name):
    launch, avals, sizes = {**RIGHT, **UNDECIDED}[name]
    for target in TARGETS:
        assert launch.check(*avals, target=target, **sizes).ok
    launch.compile(*avals, target=TARGETS[0], **sizes)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused_is_refused_by_the_trace_and_the_compiler(name):
    launch, avals, sizes = WRONG[name]
    for target in TARGETS:
        report = launch.check(*avals, target=target, **sizes)
        assert "unaligned-slice" in {d.rule for d in report.diagnostics if d.verdict == "refuted"}
    with pytest.raises(tp.PlacementError, match="unaligned"):
        launch.compile(*avals, target=TARGETS[0], **sizes)


def test_a_plain_call_is_refused_by_the_compiler():
    module = _module("wrong")
    with pytest.raises(tp.CompileError, match="cannot statically prove"):
        tp.compile(module.plain, module.WIDE, target=TARGETS[0])
