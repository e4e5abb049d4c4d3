"""The steps along the axes of a grid, as a walk takes them: by themselves, or runs of them as one."""

from collections.abc import Sequence

from typedpallas.tracing.flow import loops as flow_loops
from typedpallas.tracing.flow.numbers import Number
from typedpallas.tracing.flow.state import Ids

_EDGE = 4
"""How many steps at either end of an axis are walked by themselves, where those between come in phases."""

type Segments = Sequence[tuple[int, int]]
"""The steps along one axis, in order: single ones, and runs of steps taken as one."""


def before(ids: Ids, ticked: int, segments: Sequence[Segments]) -> Ids:
    """The step before, when axis ``ticked`` has just moved on and those behind it start again."""
    found: list[Number] = list(ids)
    number = ids[ticked]
    assert number is not None
    found[ticked] = (number[0] - 1, number[1] - 1)
    for axis in range(ticked + 1, len(ids)):
        found[axis] = (segments[axis][-1][1],) * 2
    return tuple(found)


def every(extent: int, first: int = 0) -> Segments:
    """Each step of an axis by itself."""
    return [(i, i) for i in range(first, extent)]


def kinds(extent: int, first: int = 0, phases: int = 1, compared: Sequence[int] = ()) -> Segments:
    """The first step of an axis, those between, and the last; more at either end where those between have phases.

    Steps around the numbers that the kernel compares with, ``compared``, are walked by themselves too.
    """
    edge = 1 if phases == 1 else _EDGE
    length = extent - first
    if length <= 2 * edge + phases:
        return every(extent, first)
    alone = flow_loops.alone(length, edge, [number - first for number in compared])
    return [(first + low, first + high) for low, high in flow_loops.runs(length, alone, phases)]
