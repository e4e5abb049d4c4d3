"""How a launch refuses: through the rule book where there is a rule, else with a `LaunchError`."""

import os
import sys
from collections.abc import Iterable

import jax

from typedpallas import rules
from typedpallas.diagnostics import Diagnostic, Place, PlacementError, diagnose
from typedpallas.events import Context, Event

_PACKAGES = tuple(os.path.dirname(path) + os.sep for path in (os.path.dirname(__file__), jax.__file__))


class LaunchError(ValueError):
    """A launch that cannot be: what was expected, what was found, and the nearest legal value."""


class Unsupported(LaunchError):
    """A kernel that this backend cannot run, whatever the sizes; another may."""


def caller() -> Place:
    """The innermost line that is neither typedpallas' nor JAX's: the user's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGES):
        frame = frame.f_back
    return Place(file=frame.f_code.co_filename, line=frame.f_lineno)


def refuse_by_rule(events: Iterable[Event], context: Context, *, kernel: str, place: Place | None = None) -> None:
    """Judge events and raise what is refuted, all at once.

    Raises:
        PlacementError: some event is refuted; the diagnostics point at ``place``, or at the user's line.
    """
    found: list[Diagnostic] = []
    for event in events:
        for finding in rules.judge(event, context):
            if finding.verdict == "refuted":
                target = context.target.name if context.target is not None else None
                where = caller() if place is None else place
                found.append(diagnose(finding, level="trace", target=target, place=where, kernel=kernel))
    if found:
        raise PlacementError(tuple(dict.fromkeys(found)))
