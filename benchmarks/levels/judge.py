"""One annotated kernel: what mypy said and what the trace says, held against each other."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import typedpallas as tp
from benchmarks.levels.emit import Style
from typedpallas import rules
from typedpallas.diagnostics import Diagnostic

FOR_ALL_SIZES = "unaligned-slice"
"""A rule that level 1 refutes only where it holds whatever the sizes are, those of the launch among them."""


@dataclass(frozen=True)
class Error:
    """An error of mypy's. ``code`` is a rule's slug, or one of mypy's own."""

    line: int
    code: str
    text: str


@dataclass(frozen=True)
class Judgement:
    """What one rule said of one event at level 1."""

    line: int
    rule: str
    verdict: str
    """``proved``, ``refuted``, ``open``, or ``silent`` about an event that is not known in full."""


@dataclass(frozen=True)
class Subject:
    """A kernel in one style, with what level 1 said."""

    name: str
    style: Style
    source: str
    errors: tuple[Error, ...] = ()
    judgements: tuple[Judgement, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """How the levels stand to each other on one kernel."""

    name: str
    refuted_at: tuple[str, ...]
    """Rules that refuted it at level 1."""
    proved: int
    """How many judgements of level 1 were proofs."""
    traced: tuple[str, ...]
    """Rules that refuted it at level 2."""
    slices: tuple[str, ...] = ()
    """What level 1 said of the alignment of each slice that it judged: proved, refuted or open."""
    contradictions: tuple[str, ...] = field(default=())


def verdict(subject: Subject, diagnostics: Sequence[Diagnostic]) -> Verdict:
    """Compare. Level 2 judged the very text that level 1 did, so lines are the same."""
    refuted = [d for d in diagnostics if d.verdict == "refuted"]
    own = [error for error in subject.errors if error.code in rules.all_rules()]
    wrong = [*_proved_but_refuted(subject.judgements, refuted)]
    wrong += [
        f"mypy: line {e.line}: {e.text} [{e.code}]; the trace takes that line with these sizes"
        for e in own
        if e.code == FOR_ALL_SIZES and e.line not in {d.line for d in refuted}
    ]
    if subject.style == "literal" and not refuted:
        wrong += [
            f"mypy: line {e.line}: {e.text} [{e.code}]; the trace has nothing against it"
            for e in own
            if e.code != FOR_ALL_SIZES
        ]
    foreign = [error for error in subject.errors if error.code not in rules.all_rules()]
    if not refuted and not own:
        wrong += [f"mypy itself: line {e.line}: {e.text} [{e.code}]" for e in foreign]
    return Verdict(
        subject.name,
        tuple(sorted({error.code for error in own})),
        sum(item.verdict == "proved" for item in subject.judgements),
        tuple(sorted({d.rule for d in refuted})),
        tuple(item.verdict for item in subject.judgements if item.rule == FOR_ALL_SIZES),
        tuple(wrong),
    )


def _proved_but_refuted(judgements: Iterable[Judgement], refuted: Iterable[Diagnostic]) -> Iterable[str]:
    """Where every judgement of a rule on a line was a proof, and the trace refutes that rule on that line."""
    said: dict[tuple[str, int], set[str]] = defaultdict(set)
    for judgement in judgements:
        said[judgement.rule, judgement.line].add(judgement.verdict)
    for item in refuted:
        if said.get((item.rule, item.line)) == {"proved"}:
            yield f"trace: line {item.line}: {item.message} [{item.rule}]; mypy proved it"


def traced(source: str, path: str, target: str) -> Sequence[Diagnostic]:
    """What `tp.check` says of the annotated module."""
    namespace: dict[str, Any] = {"__name__": "subject"}
    exec(compile(source, path, "exec"), namespace)
    return tp.check(namespace["run"], *namespace["ARGS"], target=target).diagnostics


def judgements(text: str) -> Mapping[str, tuple[Judgement, ...]]:
    """The recorder's file by module."""
    found: dict[str, list[Judgement]] = defaultdict(list)
    for line in text.splitlines():
        item = json.loads(line)
        found[item["module"]].append(Judgement(item["line"], item["rule"], item["verdict"]))
    return {module: tuple(items) for module, items in found.items()}
