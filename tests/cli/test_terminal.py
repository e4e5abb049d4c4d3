"""What a terminal shows: spans, carets, folding, and what other streams get instead of signs and colours."""

import io
from pathlib import Path

import pytest

from typedpallas.cli import show, terminal
from typedpallas.cli.terminal import Screen
from typedpallas.diagnostics import Diagnostic

SOURCE = "def f(x, y):\n    y[...] = x[0:8, :] * 3.0 + g(x)\n    return [\n        x,\n    ]\n"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "source.py"
    path.write_text(SOURCE)
    return str(path)


def plain(width: int = 0, colour: bool = False) -> Screen:
    return Screen(io.StringIO(), colour, True, False, width)


@pytest.mark.parametrize(
    ("line", "column", "underlined"),
    [
        (2, 14, "x[0:8, :]"),
        (2, 32, "g(x)"),
        (2, 5, "y[...]"),
        (2, 0, "y[...] = x[0:8, :] * 3.0 + g(x)"),
        (3, 12, "["),
        (1, 7, "x"),
    ],
)
def test_carets_are_below_the_construct(file: str, line: int, column: int, underlined: str) -> None:
    source, carets = terminal.excerpt(plain(), file, line, column)
    assert source[carets.index("^") : carets.rindex("^") + 1] == underlined


def test_a_given_end_is_kept(file: str) -> None:
    source, carets = terminal.excerpt(plain(), file, 2, 14, 15)
    assert source[carets.index("^") : carets.rindex("^") + 1] == "x"


def test_no_source_no_excerpt(file: str) -> None:
    assert terminal.excerpt(plain(), file, 99, 1) == []
    assert terminal.excerpt(plain(), "no/such/file.py", 1, 1) == []


def test_long_lines_are_cut_and_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    long = tmp_path / "long.py"
    long.write_text("value = " + " + ".join(["number"] * 40) + "\n")
    item = Diagnostic(
        rule="some-rule",
        verdict="refuted",
        level="trace",
        target=None,
        file=str(long),
        line=1,
        column=9,
        message="a headline that is told at some length, " * 4 + "and ends",
        expected="this",
        found="seven",
        notes=("a fact that is told at some length too, " * 4,),
        help="the edit",
    )
    lines = show.lines(plain(width=80), item, ("tpu-v4", "h100"))
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "(on tpu-v4, h100)" in " ".join(text.split())
    for part in ("= expected: this", "= found: seven", "= note: a fact", "= help: the edit", "[some-rule]"):
        assert part in text


def test_colours_only_where_there_are_any() -> None:
    assert plain().paint("x", "red") == "x"
    assert plain(colour=True).paint("x", "red", "bold") == "\x1b[31;1mx\x1b[0m"
    assert not terminal.screen(io.StringIO()).colour


def test_no_color_and_force_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert terminal.screen(io.StringIO()).colour
    monkeypatch.setenv("NO_COLOR", "")
    assert not terminal.screen(io.StringIO()).colour


def test_a_stream_without_the_signs_gets_others() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    terminal.screen(stream).write("✓ ─ é")
    assert raw.getvalue() == b"+ - ?\n"


def test_the_same_on_several_targets_is_shown_once() -> None:
    def on(target: str | None) -> Diagnostic:
        return Diagnostic(
            rule="r", verdict="refuted", level="trace", target=target, file="f", line=1, column=1, message="m"
        )

    assert show.merged([on("a"), on("b"), on("a")]) == [(on(None), ("a", "b"))]
    assert show.tally([on("a")]) == "1 error"
    assert show.tally([]) == "clean"


def test_one_cause_is_told_once_with_every_targets_numbers() -> None:
    def needs(target: str, limit: int) -> Diagnostic:
        return Diagnostic(
            rule="vmem-overflow",
            verdict="refuted",
            level="trace",
            target=target,
            file="f.py",
            line=1,
            column=1,
            message=f"the kernel needs 99 bytes: expected at most {limit}",
            help="use smaller blocks",
        )

    (group,) = show.grouped([needs("a", 16), needs("b", 16), needs("c", 32)])
    lines = show.group_lines(plain(), group)
    assert lines[0] == "f.py:1:1: error: the kernel needs 99 bytes: expected at most 16 (on a, b)  [vmem-overflow]"
    assert lines[-1].strip() == "= on c: the kernel needs 99 bytes: expected at most 32"
    assert sum("use smaller blocks" in line for line in lines) == 1
