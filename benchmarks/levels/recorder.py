"""typedpallas's mypy plugin, and a record of every judgement: what rule, where, and what it said.

A rule is silent where it has nothing against an event, and also where it knows too little of it. Only the silence
about an event of which everything is known counts as a proof. Slices are judged for many sizes and say by themselves
what they prove.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mypy.nodes import Context as Place
from mypy.plugin import Plugin

from typedpallas import rules
from typedpallas.dims import Facts
from typedpallas.events import Context, Event
from typedpallas_mypy import report, trials
from typedpallas_mypy.plugin import TypedpallasPlugin
from typedpallas_mypy.report import Places
from typedpallas_mypy.trials import Said, Trial

RECORD = "TYPEDPALLAS_LEVELS_RECORD"
"""The environment variable that names the file to which judgements are appended."""
SLICES = "unaligned-slice"
"""The rule that is asked about constructs in many sizes."""

_judge = report.judge
_judge_any = report.judge_any
_judge_all = trials.judge_all


def _recorded(api: Any, event: Event, facts: Facts, places: Places) -> bool:
    refuted = _judge(api, event, facts, places)
    _record(api, (event,), facts, places)
    return refuted


def _recorded_any(api: Any, events: Sequence[Event], facts: Facts, places: Any) -> None:
    _judge_any(api, events, facts, places)
    _record(api, events, facts, places)


def _recorded_all(
    api: Any, trials: Iterable[Trial], places: Mapping[str, Place], *, complete: bool, compiled: bool
) -> Said:
    said = _judge_all(api, trials, places, complete=complete, compiled=compiled)
    _write(api, places[""].line, SLICES, said)
    return said


def _write(api: Any, line: int, rule: str, verdict: str) -> None:
    with open(os.environ[RECORD], "a") as out:
        out.write(json.dumps({"module": Path(api.path).stem, "line": line, "rule": rule, "verdict": verdict}) + "\n")


def _record(api: Any, events: Sequence[Event], facts: Facts, places: Places) -> None:
    at = places() if callable(places) else places
    for event in events:
        context = Context(facts=facts)
        for rule in rules.judging(event):
            said = {finding.verdict for finding in rule.judge(event, context)}
            verdict = "refuted" if "refuted" in said else "open" if "open" in said else "silent"
            _write(api, at[""].line, rule.slug, "proved" if verdict == "silent" and known(event) else verdict)


def known(part: object) -> bool:
    """Whether nothing in an event is unknown."""
    if part is None:
        return False
    if dataclasses.is_dataclass(part) and type(part).__module__.startswith("typedpallas.events"):
        return all(known(getattr(part, field.name)) for field in dataclasses.fields(part))
    return all(known(item) for item in part) if isinstance(part, tuple | list) else True


def plugin(version: str) -> type[Plugin]:
    """mypy's entry point."""
    report.judge = _recorded
    report.judge_any = _recorded_any
    trials.judge_all = _recorded_all
    trials.is_thorough = lambda: True
    return TypedpallasPlugin
