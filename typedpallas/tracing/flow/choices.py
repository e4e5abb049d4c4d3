"""What becomes of garbage where one of several values is chosen."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from typedpallas.tracing.flow import cells
from typedpallas.tracing.flow.cells import Cells
from typedpallas.tracing.flow.masks import Facts
from typedpallas.tracing.flow.spans import Span


def lesser(left: Cells, right: Cells) -> Cells:
    """Garbage where both are."""
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right)
    return cells.slim(np.minimum(left, right).astype(np.uint8))


def selected(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    condition, *cases = (parts[0], *(cells.computed(part) for part in parts[1:]))
    which = facts.which
    if which is not None and which[0] == which[1]:
        return cases[which[0]]
    span = facts.span(eqn.invars[0]) if len(cases) == 2 else None
    if span is not None and ((span[0] >= 1) | (span[1] <= 0)).all():
        return chosen(span, cases[1], cases[0], cells.MAYBE, eqn.outvars[0].aval.shape)
    found = cases[0]
    for case in cases[1:]:
        found = cells.join(found, case)
    if cells.worst(condition):
        chosen_by = _by_garbage(condition, cases, eqn, facts) if facts.kind != "memory" else None
        found = _least_spoiled(found, cases) if chosen_by is None else chosen_by
    return chosen(span, cases[1], cases[0], found, eqn.outvars[0].aval.shape) if len(cases) == 2 else found


def _by_garbage(condition: Cells, cases: Sequence[Cells], eqn: Any, facts: Facts) -> Cells:
    """What padding chooses: garbage where some case is, or where it says which of two numbers it is."""
    most = cases[0]
    for case in cases[1:]:
        most = cells.worse(most, case)
    spans = [facts.span(atom) for atom in eqn.invars[1:]]
    differ: Any = False
    if len(spans) == 2 and spans[0] is not None and spans[1] is not None:
        differ = (spans[0][0] > spans[1][1]) | (spans[1][0] > spans[0][1])
    chosen = np.asarray(condition) >= cells.SPOILED
    spoiled = chosen & ((np.asarray(most) >= cells.SPOILED) | differ)
    least = _least_spoiled(cells.join(cases[0], cases[-1]), cases)
    return cells.as_cells(np.where(spoiled, cells.SPOILED, least).astype(np.uint8), eqn.outvars[0].aval.shape)


def _least_spoiled(found: Cells, cases: Sequence[Cells]) -> Cells:
    """What garbage may choose: garbage where every case is, else perhaps."""
    worst = cells.doubtful(found)
    least = cases[0]
    for case in cases[1:]:
        least = lesser(least, case)
    both = np.where(np.asarray(least) >= cells.SPOILED, cells.SPOILED, worst).astype(np.uint8)
    return int(both) if both.ndim == 0 else cells.slim(both)


def chosen(span: Span, yes: Cells, no: Cells, other: Cells, shape: Sequence[int]) -> Cells:
    """``yes`` where a condition surely holds, ``no`` where it surely does not, ``other`` elsewhere.

    Where nothing is known of the condition it is ``other`` that may not be meant.
    """
    if span is None or not all(cells.fits(part, shape) for part in (yes, no, other)):
        return other
    low, high = span
    parts = [np.asarray(part, np.uint8) for part in (yes, no, other)]
    found = np.where(low >= 1, parts[0], np.where(high <= 0, parts[1], parts[2]))
    return cells.as_cells(found, shape)
