"""Where an index map goes over the grid: blocks out of range, never visited, shared, or visited again."""

import math

import numpy as np

from typedpallas.events import Point, Visits
from typedpallas.tracing.grid import values as grid_values
from typedpallas.tracing.grid.maps import Group, Ints, Map, at_points, block_ids, groups_of

_MOST_ONE_BY_ONE = 4096
"""Grids of more points are followed one by one only where nothing shorter tells whether blocks come back."""


def follow(found: Map, parallel: frozenset[int], sequential: bool) -> Visits | None:
    """The visits of an output's map; none where it depends on data.

    Args:
        found: the map.
        parallel: the grid axes along which programs may run at once.
        sequential: whether the rest of the grid runs in order, last axis fastest.
    """
    groups = groups_of(found)
    if groups is None:
        return None
    complete = all(group.complete for group in groups)
    missing, count = _missing(groups, found.blocks) if complete else (None, 0)
    return Visits(
        complete=complete,
        outside=_outside(groups, found),
        blocks=found.blocks,
        missing=missing,
        missing_count=count,
        shared=_shared(groups, found, parallel),
        returns=_returns(groups, found) if sequential and complete else None,
    )


def reach(found: Map) -> Visits | None:
    """How far an input's map goes: `follow`, without what only matters where something is stored."""
    groups = groups_of(found)
    if groups is None:
        return None
    complete = all(group.complete for group in groups)
    return Visits(complete=complete, outside=_outside(groups, found), blocks=found.blocks)


def _outside(groups: list[Group], found: Map) -> tuple[Point, Point, int] | None:
    for group in groups:
        if group.plain is not None or group.reached is None:
            continue
        wrong = (group.reached < 0) | (group.reached >= np.array(group.blocks))
        rows = np.nonzero(wrong.any(axis=1))[0]
        if len(rows):
            row = rows[0]
            point = _point(group.at[row])
            axis = group.results[int(np.nonzero(wrong[row])[0][0])]
            return point, _index_at(found, point), axis
    return None


def _point(row: Ints) -> Point:
    return tuple(int(value) for value in row)


def _index_at(found: Map, point: Point) -> Point:
    values = at_points(found, np.array([point]))
    return tuple(int(np.ravel(value)[0]) for value in values if value is not None)


def _missing(groups: list[Group], blocks: tuple[int, ...]) -> tuple[Point | None, int]:
    first = [0] * len(blocks)
    seen_total, missed = 1, False
    for group in groups:
        count, gap = _gap(group)
        seen_total *= count
        if gap is not None and not missed:
            for result, value in zip(group.results, np.unravel_index(gap, group.blocks), strict=True):
                first[result] = int(value)
        missed = missed or gap is not None
    return (tuple(first) if missed else None), math.prod(blocks) - seen_total


def _gap(group: Group) -> tuple[int, int | None]:
    """How many blocks a group visits, and the first that it leaves out, as one number."""
    total = math.prod(group.blocks)
    if group.plain is not None:
        count, gap = len(group.plain), 0 if group.plain.start else group.plain.stop
        return count, gap if count < total else None
    seen = group.seen[group.seen >= 0]
    if len(seen) == total:
        return total, None
    passed = np.nonzero(seen != np.arange(len(seen)))[0]
    return len(seen), int(passed[0]) if len(passed) else len(seen)


def _shared(groups: list[Group], found: Map, parallel: frozenset[int]) -> tuple[Point, Point, Point, int] | None:
    used = {axis for group in groups for axis in group.axes}
    origin = (0,) * len(found.grid)
    for axis in sorted(parallel - used):
        if found.grid[axis] > 1:
            other = tuple(int(k == axis) for k in range(len(found.grid)))
            return origin, other, _index_at(found, origin), axis
    for group in groups:
        if not parallel & set(group.axes):
            continue
        if group.injective:
            continue
        ids = group.ids
        order = np.argsort(ids, kind="stable")
        same = np.nonzero((ids[order][1:] == ids[order][:-1]) & (ids[order][1:] >= 0))[0]
        for a, b in zip(order[same], order[same + 1], strict=True):
            differ = [axis for axis in group.axes if group.at[a][axis] != group.at[b][axis] and axis in parallel]
            if differ:
                point = _point(group.at[a])
                return point, _point(group.at[b]), _index_at(found, point), differ[0]
    return None


def _returns(groups: list[Group], found: Map) -> tuple[Point, Point, Point] | None:
    """The first block that is visited again after another one was."""
    injective = all(group.injective for group in groups)
    used = {axis for group in groups for axis in group.axes}
    moving = [axis for axis, extent in enumerate(found.grid) if extent > 1]
    back = next((axis for axis in moving if axis not in used and used & set(moving[moving.index(axis) :])), None)
    if injective and back is None:
        return None
    if not injective or math.prod(found.grid) <= _MOST_ONE_BY_ONE:
        at, whole = grid_values.points(found.grid)
        ids = block_ids(found, at) if whole else None
        if whole:
            return None if ids is None else _first_return(ids, at, found)
    if not injective or back is None:
        return None
    again = tuple(int(k == back) for k in range(len(found.grid)))
    left = tuple(found.grid[k] - 1 if k > back and k not in used else 0 for k in range(len(found.grid)))
    return _index_at(found, again), left, again


def _first_return(ids: Ints, at: Ints, found: Map) -> tuple[Point, Point, Point] | None:
    starts = np.concatenate([[0], np.nonzero(ids[1:] != ids[:-1])[0] + 1])
    runs = ids[starts]
    order = np.argsort(runs, kind="stable")
    later = order[1:][runs[order[1:]] == runs[order[:-1]]]
    if not len(later):
        return None
    run = int(later.min())
    before = int(np.nonzero(runs[:run] == runs[run])[0][-1])
    back = _point(at[starts[run]])
    return _index_at(found, back), _point(at[starts[before + 1] - 1]), back
