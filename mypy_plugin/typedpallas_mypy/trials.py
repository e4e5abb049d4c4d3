"""One construct in many sizes: what the rule book refutes for all of them is an error, the rest is proved or open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from mypy.nodes import Context as Place

from typedpallas import diagnostics, rules
from typedpallas.events import Context, Event
from typedpallas.records import record
from typedpallas.rules import Finding
from typedpallas_mypy import config, report
from typedpallas_mypy.forms import FREE

type Said = Literal["proved", "refuted", "open"]
type _Key = tuple[str, str, str]
"""A target's name, a rule, and the axis that the rule blames."""
type _Standing = Mapping[_Key, list[tuple[Finding, Mapping[str, int]]]]
"""What is refuted in every trial so far, with each one's finding and sizes."""


@record(frozen=True)
class Trial:
    """An event in numbers, and the sizes that make it so. The event is none where the construct never runs then."""

    event: Event | None
    sizes: Mapping[str, int]


def is_thorough() -> bool:
    """Whether it matters what is proved and what is open, not only what is refuted."""
    return config.shows_open()


def may_refute(trials: Iterable[Trial]) -> bool:
    """Whether the first sizes leave a chance that all are refuted. Nearly everything that is right fails here."""
    first = next(iter(trials), None)
    return first is not None and bool(_refuted(first))


def may_be_wrong(trials: Iterable[Trial]) -> bool:
    """Whether a rule has something against some of the sizes."""
    return any(True for trial in trials for _ in _found(trial))


def judge_all(
    api: Any, trials: Iterable[Trial], places: Mapping[str, Place], *, complete: bool, compiled: bool
) -> Said:
    """Judge a construct by its trials.

    Args:
        complete: whether these show all that can be.
        compiled: whether the construct is surely compiled, where it has sizes with which it runs.
    """
    clean = True
    standing: dict[_Key, list[tuple[Finding, Mapping[str, int]]]] | None = None
    for trial in trials:
        found = _refuted(trial)
        common = [key for key in found if standing is None or key in standing]
        standing = {key: [*(standing or {}).get(key, ()), (found[key], trial.sizes)] for key in common}
        clean = clean and not found and not _doubted(trial)
        if not standing and not clean and not is_thorough():
            break
    if standing and complete and compiled:
        _emit(api, standing, places)
        return "refuted"
    if clean and complete and standing is not None:
        return "proved"
    report.unknown(api, places["index"], "whether this slice is aligned is not known for all sizes")
    return "open"


def _refuted(trial: Trial) -> dict[_Key, Finding]:
    """What is refuted with these sizes, on each target."""
    return {key: finding for key, finding in _found(trial) if finding.verdict == "refuted"}


def _doubted(trial: Trial) -> bool:
    return any(finding.verdict == "open" for _, finding in _found(trial))


def _found(trial: Trial) -> Iterator[tuple[_Key, Finding]]:
    if trial.event is None:
        return
    for target in report.targets_of(trial.event):
        for finding in rules.judge(trial.event, Context(target=target)):
            yield (target.name, finding.rule, finding.data.get("axis", "")), finding


def _emit(api: Any, standing: _Standing, places: Mapping[str, Place]) -> None:
    """One error for each rule and axis, with the smallest sizes that show it and the targets on which it is so."""
    on: dict[tuple[str, str], list[str]] = {}
    for target, rule, axis in standing:
        on.setdefault((rule, axis), []).append(target)
    for (rule, axis), names in on.items():
        finding, sizes = min(
            standing[names[0], rule, axis], key=lambda one: (not one[0].witness, sum(one[1].values()))
        )
        known = {name: value for name, value in sorted(sizes.items()) if not name.startswith(FREE)}
        finding = diagnostics.with_sizes(finding, known)
        report.emit(api, finding, places.get(finding.blame, places[""]), tuple(names))
