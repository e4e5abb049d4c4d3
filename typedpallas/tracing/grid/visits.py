"""Where an index map goes over the grid: blocks out of range, never visited, shared, or visited again.

A map is cut into groups of results that depend on common grid axes; each group is followed over its own axes only,
so that large grids stay exact as long as no single group is large.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from typedpallas.events import Point, Visits
from typedpallas.tracing import jaxapi
from typedpallas.tracing.grid import values as grid_values

type Ints = np.ndarray[Any, Any]

_MOST_ONE_BY_ONE = 4096
"""Grids of more points are followed one by one only where nothing shorter tells whether blocks come back."""


@dataclass(frozen=True)
class Map:
    """An index map over a grid of known extents. ``block`` and ``array`` in elements."""

    jaxpr: Any
    grid: tuple[int, ...]
    block: tuple[int, ...]
    array: tuple[int, ...]
    tables: tuple[Ints | None, ...] = ()
    """What each of the refs that it takes after the grid ids holds; none where that is not known."""

    @functools.cached_property
    def blocks(self) -> tuple[int, ...]:
        """Blocks along each axis of the array, a partial last one counted."""
        return tuple(-(-extent // size) for extent, size in zip(self.array, self.block, strict=True))


@dataclass(frozen=True)
class _Group:
    """Results that depend on common grid axes: where they go at ``at``, which has one row for each point."""

    results: tuple[int, ...]
    axes: tuple[int, ...]
    at: Ints
    values: Ints
    complete: bool
    ids: Ints
    """Each point's blocks within the group as one number; -1 outside of the array."""

    @functools.cached_property
    def seen(self) -> Ints:
        """The numbers among ``ids``, in order."""
        return np.unique(self.ids)


def follow(found: Map, parallel: frozenset[int], sequential: bool) -> Visits | None:
    """The visits of a map; none where it depends on data.

    Args:
        found: the map.
        parallel: the grid axes along which programs may run at once.
        sequential: whether the rest of the grid runs in order, last axis fastest.
    """
    if 0 in found.grid or 0 in found.array:
        return None
    groups = _groups(found)
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


def at_points(found: Map, at: Ints) -> list[grid_values.Value]:
    """Each result at each of the grid points in ``at``."""
    jaxpr = jaxapi.open_jaxpr(found.jaxpr)
    ids: list[grid_values.Value] = [at[:, axis] for axis in range(len(found.grid))]
    missing = len(jaxpr.invars) - len(ids) - len(found.tables)
    data: list[grid_values.Value] = [*found.tables, *[None] * missing]
    walked = grid_values.walked(at, found.grid)
    return grid_values.evaluate(jaxpr, ids + data, walked)


def _groups(found: Map) -> list[_Group] | None:
    wanted = list(range(len(found.block)))
    axes = axes_of_each(found.jaxpr, len(found.grid), found.grid)
    groups = []
    while wanted:
        members = [wanted.pop(0)]
        used = set(axes[members[0]])
        while more := [result for result in wanted if axes[result] & used]:
            members += more
            used |= {axis for result in more for axis in axes[result]}
            wanted = [result for result in wanted if result not in more]
        group = _group(found, tuple(members), tuple(sorted(used)))
        if group is None:
            return None
        groups.append(group)
    return groups


def _group(found: Map, results: tuple[int, ...], axes: tuple[int, ...]) -> _Group | None:
    own, complete = grid_values.points([found.grid[axis] for axis in axes])
    at = np.zeros((len(own), len(found.grid)), dtype=np.int64)
    at[:, list(axes)] = own
    reached = at_points(found, at)
    columns = [reached[result] for result in results]
    if any(column is None for column in columns):
        return None
    wide = [np.broadcast_to(column, (len(at),)) for column in columns if column is not None]
    values = np.stack(wide, axis=1)
    return _Group(results, axes, at, values, complete, _ids(values, [found.blocks[result] for result in results]))


def axes_of(jaxpr: Any, count: int, result: int, grid: Sequence[int]) -> set[int]:
    """The grid axes, longer than one step, that a result is computed from."""
    return axes_of_each(jaxpr, count, grid)[result]


def axes_of_each(jaxpr: Any, count: int, grid: Sequence[int]) -> list[set[int]]:
    """`axes_of` every result."""
    opened = jaxapi.open_jaxpr(jaxpr)
    known: dict[Any, set[int]] = {
        var: {axis} if grid[axis] > 1 else set() for axis, var in enumerate(opened.invars[:count])
    }
    for eqn in opened.eqns:
        if eqn.primitive.name == "mul" and any(jaxapi.is_literal(a) and np.all(a.val == 0) for a in eqn.invars):
            used: set[int] = set()
        else:
            used = set().union(*(known.get(a, set()) for a in eqn.invars if not jaxapi.is_literal(a)))
        known.update({var: used for var in eqn.outvars})
    return [set() if jaxapi.is_literal(atom) else known.get(atom, set()) for atom in opened.outvars]


def _outside(groups: list[_Group], found: Map) -> tuple[Point, Point, int] | None:
    for group in groups:
        limits = np.array([found.blocks[result] for result in group.results])
        wrong = (group.values < 0) | (group.values >= limits)
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


def _ids(values: Ints, sizes: Sequence[int]) -> Ints:
    """Rows of block numbers along axes of these sizes, each as one number; -1 outside of the array."""
    inside = ((values >= 0) & (values < np.array(sizes))).all(axis=1)
    ids = np.zeros(len(values), dtype=np.int64)
    for column, size in enumerate(sizes):
        ids = ids * size + values[:, column]
    return np.where(inside, ids, -1)


def _missing(groups: list[_Group], blocks: tuple[int, ...]) -> tuple[Point | None, int]:
    first = [0] * len(blocks)
    seen_total, missed = 1, False
    for group in groups:
        sizes = [blocks[result] for result in group.results]
        total = math.prod(sizes)
        seen = group.seen[group.seen >= 0]
        seen_total *= len(seen)
        if len(seen) == total:
            continue
        gap = (
            int(np.nonzero(seen != np.arange(len(seen)))[0][0]) if (seen != np.arange(len(seen))).any() else len(seen)
        )
        if not missed:
            for result, value in zip(group.results, np.unravel_index(gap, sizes), strict=True):
                first[result] = int(value)
        missed = True
    return (tuple(first) if missed else None), math.prod(blocks) - seen_total


def _shared(groups: list[_Group], found: Map, parallel: frozenset[int]) -> tuple[Point, Point, Point, int] | None:
    used = {axis for group in groups for axis in group.axes}
    origin = (0,) * len(found.grid)
    for axis in sorted(parallel - used):
        if found.grid[axis] > 1:
            other = tuple(int(k == axis) for k in range(len(found.grid)))
            return origin, other, _index_at(found, origin), axis
    for group in groups:
        if not parallel & set(group.axes):
            continue
        ids = group.ids
        if len(group.seen) == len(ids):
            continue
        order = np.argsort(ids, kind="stable")
        same = np.nonzero((ids[order][1:] == ids[order][:-1]) & (ids[order][1:] >= 0))[0]
        for a, b in zip(order[same], order[same + 1], strict=True):
            differ = [axis for axis in group.axes if group.at[a][axis] != group.at[b][axis] and axis in parallel]
            if differ:
                point = _point(group.at[a])
                return point, _point(group.at[b]), _index_at(found, point), differ[0]
    return None


def _returns(groups: list[_Group], found: Map) -> tuple[Point, Point, Point] | None:
    """The first block that is visited again after another one was."""
    injective = all(len(group.seen) == len(group.at) for group in groups)
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


def block_ids(found: Map, at: Ints) -> Ints | None:
    """Each grid point's block as one number; none where the map depends on data."""
    ids = np.zeros(len(at), dtype=np.int64)
    for value, size in zip(at_points(found, at), found.blocks, strict=True):
        if value is None:
            return None
        ids = ids * (size + 2) + np.clip(np.broadcast_to(value, (len(at),)), -1, size) + 1
    return ids


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
