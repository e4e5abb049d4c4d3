"""Events to the rule book, and what it refutes to mypy: one error at the blamed place, notes below it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mypy.errorcodes import ErrorCode
from mypy.nodes import Context as Place

from typedpallas import chips, diagnostics, rules
from typedpallas.chips import Target
from typedpallas.dims import Facts
from typedpallas.events import Context, Event
from typedpallas.rules import Finding, Rule
from typedpallas_mypy import book, config


@functools.cache
def codes() -> dict[str, ErrorCode]:
    """mypy's error code for every rule: its slug."""
    return {slug: ErrorCode(slug, summary, "typedpallas") for slug, summary in book.summaries().items()}


type Places = Mapping[str, Place] | Callable[[], Mapping[str, Place]]
"""The expression for each blame (``value``, ``index``, ...), ``""`` for the whole construct; or what finds these.

Nearly every construct is right, and then nobody asks.
"""


def judge(api: Any, event: Event, facts: Facts, places: Places) -> bool:
    """Judge an event on no target and on every configured one; whether anything was refuted."""
    found = _findings(event, facts)
    if found:
        at = places() if callable(places) else places
        for finding, targets in found:
            emit(api, finding, at.get(finding.blame, at[""]), targets)
    elif config.shows_open():
        _list_open(api, event, facts, places() if callable(places) else places)
    return bool(found)


def _list_open(api: Any, event: Event, facts: Facts, places: Mapping[str, Place]) -> None:
    """What no rule could decide about an event, as notes."""
    contexts = [Context(facts=facts, target=target) for target in targets_of(event)] or [Context(facts=facts)]
    undecided = {
        (finding.rule, finding.blame): finding
        for context in contexts
        for finding in rules.judge(event, context)
        if finding.verdict == "open"
    }
    for finding in undecided.values():
        closes = f"; {finding.help}" if finding.help else ""
        place = places.get(finding.blame, places[""])
        words = diagnostics.headline(finding).removeprefix("not decided: ")
        api.msg.note(f"open: {words}{closes}", place, code=codes()[finding.rule])


def unknown(api: Any, place: Place, what: str) -> None:
    """Something that types could say and do not, listed where the project asks for it. It is never an error."""
    if config.shows_open():
        api.msg.note(f"open: {what}", place)


def judge_any(api: Any, events: Sequence[Event], facts: Facts, places: Mapping[str, Place]) -> None:
    """Judge one event that may be any of several; only a rule that refutes them all speaks.

    A value whose type is a union has one event for each item, and not every item need reach the place.
    """
    found = [_findings(event, facts) for event in events]
    slugs = [{finding.rule for finding, _ in findings} for findings in found]
    common = set.intersection(*slugs) if slugs else set()
    for finding, targets in found[0] if found else ():
        if finding.rule in common:
            emit(api, finding, places.get(finding.blame, places[""]), targets)


class _Anywhere(Context):
    """No target; notes whether a rule wanted one. A rule that did not says the same of every target."""

    wanted = False

    def __getattribute__(self, name: str) -> Any:
        if name in ("target", "machine"):
            object.__setattr__(self, "wanted", True)
        return object.__getattribute__(self, name)


type Found = list[tuple[Finding, tuple[str, ...]]]
"""What is refuted, each with the targets on which it is; no targets if it is wrong everywhere."""

_MOST_KEPT = 20_000
_FINE: set[object] = set()
"""What rules had nothing against. Kernels do the same things again and again, and nearly all of them right."""


def _findings(event: Event, facts: Facts) -> Found:
    key = (event, tuple(facts.multiples.items()), config.targets())
    try:
        if facts.lows or facts.highs:
            return _judged(event, facts)
        if key in _FINE:
            return []
    except TypeError:  # the event holds a list or a mapping
        return _judged(event, facts)
    found = _judged(event, facts)
    if not found:
        if len(_FINE) >= _MOST_KEPT:
            _FINE.clear()
        _FINE.add(key)
    return found


def _judged(event: Event, facts: Facts) -> Found:
    targets = targets_of(event)
    if not targets:
        context = Context(facts=facts)
        judged = [f for rule in rules.judging(event) for f in rule.judge(event, context)]
        return [(f, ()) for f in judged if f.verdict == "refuted"]
    everywhere: list[Finding] = []
    particular: list[Rule] = []
    for rule in rules.judging(event):
        anywhere = _Anywhere(facts=facts)
        everywhere += [f for f in rule.judge(event, anywhere) if f.verdict == "refuted"]
        if anywhere.wanted:
            particular.append(rule)
    said = {(finding.rule, finding.blame) for finding in everywhere}
    on: dict[tuple[str, str, str], tuple[Finding, list[str]]] = {}
    for target in targets if particular else ():
        context = Context(facts=facts, target=target)
        for finding in (finding for rule in particular for finding in rule.judge(event, context)):
            if finding.verdict != "refuted" or (finding.rule, finding.blame) in said:
                continue
            key = (finding.rule, finding.blame, diagnostics.headline(finding))
            on.setdefault(key, (finding, []))[1].append(target.name)
    return [*((finding, ()) for finding in everywhere), *((f, tuple(names)) for f, names in on.values())]


def targets_of(event: Event) -> list[Target]:
    """The configured targets; only those of the event's own machine, where a space names one that is there."""
    if not config.targets():
        return []
    targets = [chips.get(name) for name in config.targets()]
    machine = getattr(getattr(getattr(event, "ref", event), "space", None), "machine", None)
    same = [target for target in targets if target.machine == machine]
    return same or targets


def emit(api: Any, finding: Finding, place: Place, targets: tuple[str, ...] = ()) -> None:
    """One refuted finding as a mypy error with its notes."""
    code = codes()[finding.rule]
    on = f" (on {', '.join(targets)})" if targets else ""
    error = api.fail(diagnostics.headline(finding) + on, place, code=code)
    for label, text in diagnostics.remarks(finding):
        api.msg.note(text if label == "note" else f"help: {text}", place, code=code, parent_error=error)
