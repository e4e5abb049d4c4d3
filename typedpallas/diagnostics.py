"""What people read: a finding with its place, and every form in which it is shown."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal

from typedpallas import rules
from typedpallas.records import record
from typedpallas.rules.base import Finding, Level

type Style = Literal["text", "json", "github", "sarif"]


@record(frozen=True, kw_only=True)
class Place:
    """Where in the source: 1-based line and column; 0 where unknown."""

    file: str = ""
    line: int = 0
    column: int = 0


@record(frozen=True, kw_only=True)
class Diagnostic:
    """One verdict on one place of a kernel, complete enough to act on."""

    rule: str
    verdict: Literal["refuted", "open"]
    level: Level
    target: str | None
    """The chip on which it holds; none if it holds wherever the kernel runs."""
    file: str
    line: int
    column: int
    message: str
    """The headline: sufficient alone."""
    expected: str = ""
    found: str = ""
    witness: str = ""
    notes: tuple[str, ...] = ()
    help: str = ""
    kernel: str = ""

    def __str__(self) -> str:
        return render_text(self)


def headline(finding: Finding) -> str:
    """The rule's message, filled in."""
    text = rules.by_slug(finding.rule).message.format_map(dict(finding.data))
    return text if finding.verdict == "refuted" else f"not decided: {text}"


def with_sizes(finding: Finding, sizes: Mapping[str, int]) -> Finding:
    """A finding about these sizes, where it holds for others too: its numbers become an example."""
    if not sizes:
        return finding
    given = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    return replace(finding, witness=f"with {given}" + (f": {finding.witness}" if finding.witness else ""))


def diagnose(finding: Finding, *, level: Level, target: str | None, place: Place, kernel: str = "") -> Diagnostic:
    """A finding at its place."""
    return Diagnostic(
        rule=finding.rule,
        verdict=finding.verdict,
        level=level,
        target=target,
        file=place.file,
        line=place.line,
        column=place.column,
        message=headline(finding),
        expected=finding.expected,
        found=finding.found,
        witness=finding.witness,
        notes=finding.notes,
        help=finding.help,
        kernel=kernel,
    )


class PlacementError(Exception):
    """A kernel that was refused before it ran; ``diagnostics`` has every reason."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(render(self.diagnostics))


def remarks(item: Diagnostic | Finding) -> list[tuple[Literal["note", "help"], str]]:
    """The lines below the headline, in the order in which every renderer shows them."""
    lines: list[tuple[Literal["note", "help"], str]] = []
    if item.witness:
        lines.append(("note", f"for example {item.witness}"))
    lines += [("note", note) for note in item.notes]
    if item.help:
        lines.append(("help", item.help))
    return lines


def _where(diagnostic: Diagnostic) -> str:
    if not diagnostic.file:
        return "<unknown>"
    column = f":{diagnostic.column}" if diagnostic.column else ""
    return f"{diagnostic.file}:{diagnostic.line}{column}"


def render_text(diagnostic: Diagnostic) -> str:
    """The headline with its remarks, one line each, in the shape that compilers use."""
    where = _where(diagnostic)
    kind = "error" if diagnostic.verdict == "refuted" else "open"
    on = f" (on {diagnostic.target})" if diagnostic.target else ""
    lines = [f"{where}: {kind}: {diagnostic.message}{on}  [{diagnostic.rule}]"]
    lines += [f"{where}: {label}: {text}" for label, text in remarks(diagnostic)]
    return "\n".join(lines)


def render(diagnostics: Iterable[Diagnostic], style: Style = "text") -> str:
    """All diagnostics in one of the styles."""
    found = list(diagnostics)
    if style == "json":
        return json.dumps([asdict(d) for d in found], indent=2)
    if style == "github":
        return "\n".join(_github(d) for d in found)
    if style == "sarif":
        return json.dumps(_sarif(found), indent=2)
    return "\n".join(render_text(d) for d in found)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def _github(diagnostic: Diagnostic) -> str:
    kind = "error" if diagnostic.verdict == "refuted" else "notice"
    body = "\n".join([diagnostic.message, *(f"{label}: {text}" for label, text in remarks(diagnostic))])
    place = f"file={_escaped_property(diagnostic.file)},line={diagnostic.line},col={diagnostic.column}"
    return f"::{kind} {place},title={diagnostic.rule}::{_escaped(body)}"


def _sarif(found: Sequence[Diagnostic]) -> dict[str, Any]:
    driver = {"name": "typedpallas", "rules": [{"id": slug} for slug in sorted({d.rule for d in found})]}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_sarif_result(d) for d in found]}],
    }


def _sarif_result(diagnostic: Diagnostic) -> dict[str, Any]:
    region = {"startLine": max(diagnostic.line, 1), "startColumn": max(diagnostic.column, 1)}
    text = "\n".join([diagnostic.message, *(f"{label}: {text}" for label, text in remarks(diagnostic))])
    return {
        "ruleId": diagnostic.rule,
        "level": "error" if diagnostic.verdict == "refuted" else "note",
        "message": {"text": text},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": diagnostic.file}, "region": region}}],
    }
