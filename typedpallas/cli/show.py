"""Diagnostics for people: headline, source line with carets, expected and found, notes, help."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from typedpallas.cli import terminal
from typedpallas.cli.terminal import Screen, Style
from typedpallas.diagnostics import Diagnostic, remarks

_LABELS: dict[str, tuple[Style, ...]] = {"note": ("blue",), "help": ("green",)}


type Shown = tuple[Diagnostic, tuple[str, ...]]
"""A diagnostic and the targets that it was found on."""


def merged(found: Iterable[Diagnostic]) -> list[Shown]:
    """Each diagnostic once, with the targets that it was found on, in order of appearance."""
    targets: dict[Diagnostic, list[str]] = {}
    for item in found:
        on = targets.setdefault(replace(item, target=None), [])
        if item.target is not None and item.target not in on:
            on.append(item.target)
    return [(item, tuple(on)) for item, on in targets.items()]


def grouped(found: Iterable[Diagnostic]) -> list[list[Shown]]:
    """Diagnostics of one cause together: one rule at one place, told with other numbers for other targets."""
    groups: dict[tuple[object, ...], list[Shown]] = {}
    for item, targets in merged(found):
        key = (item.rule, item.verdict, item.file, item.line, item.column, item.kernel) if targets else (item,)
        groups.setdefault(key, []).append((item, targets))
    return list(groups.values())


def group_lines(on: Screen, group: Sequence[Shown]) -> list[str]:
    """The first of a group in full, the headlines of the others below it."""
    (first, targets), *others = group
    out = lines(on, first, targets)
    gutter = " " * (len(str(first.line)) + 3)
    for item, where in others:
        start = f"{gutter}= on {', '.join(where)}: "
        out += on.fold(item.message, " " * len(start), start).splitlines()
    return out


def lines(
    on: Screen, item: Diagnostic, targets: Sequence[str] = (), end_column: int = 0, source: str = ""
) -> list[str]:
    """One diagnostic as people read it.

    ``end_column``: 1-based, exclusive, where the span is known. ``source``: the file that the line is read from,
    where that is not the diagnostic's own.
    """
    refuted = item.verdict == "refuted"
    where = terminal.shown_path(item.file) if item.file else "<unknown>"
    place = f"{where}:{item.line}:{item.column}" if item.column else f"{where}:{item.line}"
    suffix = f" (on {', '.join(targets)})" if targets else ""
    kind = "error" if refuted else "open"
    head = on.fold(f"{place}: {kind}: {item.message}{suffix}  [{item.rule}]", "    ", "")
    colour: Style = "red" if refuted else "yellow"
    head = head.replace(f" {kind}: ", f" {on.paint(f'{kind}:', colour, 'bold')} ", 1)
    head = head.replace(f"[{item.rule}]", on.paint(f"[{item.rule}]", "cyan"), 1)
    out = head.splitlines()
    if source or item.file:
        out += terminal.excerpt(on, source or item.file, item.line, item.column, end_column)
    gutter = " " * (len(str(item.line)) + 3)
    for label, text in _told(item):
        start = f"{gutter}= {label}: "
        folded = on.fold(text, " " * len(start), start)
        out += folded.replace(f"= {label}:", on.paint(f"= {label}:", *_LABELS.get(label, ())), 1).splitlines()
    return out


def _told(item: Diagnostic) -> list[tuple[str, str]]:
    """Expected and found where the headline does not say them already, then the notes and the help."""
    pairs = (("expected", item.expected), ("found", item.found))
    told = [(label, text) for label, text in pairs if text and not _says(item.message, text)]
    return [*told, *remarks(item)]


def _says(message: str, text: str) -> bool:
    """Whether the headline has the text already, as words of its own."""
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", message) is not None


def tally(found: Sequence[Diagnostic], more: int = 0) -> str:
    """``2 errors, 1 open``, or ``clean``; ``more`` errors are counted that are no diagnostics."""
    refuted = more + sum(item.verdict == "refuted" for item in found)
    counts = [(refuted, "error" if refuted == 1 else "errors"), (len(found) + more - refuted, "open")]
    return ", ".join(f"{count} {word}" for count, word in counts if count) or "clean"
