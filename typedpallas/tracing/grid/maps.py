"""Index maps in numbers, cut into groups of results that depend on common grid axes.

Each group is followed over its own axes only, so that large grids stay exact as long as no single group is large.
A result that is just a grid id or a number is not followed at all.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from typedpallas.tracing import jaxapi
from typedpallas.tracing.grid import values as grid_values

type Ints = np.ndarray[Any, Any]


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

    @functools.cached_property
    def axes(self) -> list[set[int]]:
        """The grid axes, longer than one step, that each result is computed from."""
        return axes_of_each(self.jaxpr, len(self.grid), self.grid)

    def steps(self, result: int) -> range | None:
        """The blocks that a result names, in the order of the one axis that it is the id of, or the one of them.

        None where it is something else, or leaves the array.
        """
        jaxpr = jaxapi.open_jaxpr(self.jaxpr)
        atom = jaxpr.outvars[result]
        if not jaxapi.is_literal(atom):
            axis = next((k for k, var in enumerate(jaxpr.invars[: len(self.grid)]) if var is atom), None)
            return None if axis is None or self.grid[axis] > self.blocks[result] else range(self.grid[axis])
        number = int(atom.val) if np.ndim(atom.val) == 0 else -1
        return range(number, number + 1) if 0 <= number < self.blocks[result] else None


@dataclass(frozen=True)
class Group:
    """Results that depend on common grid axes; where they go is followed when it is asked for."""

    found: Map
    results: tuple[int, ...]
    axes: tuple[int, ...]

    @functools.cached_property
    def plain(self) -> range | None:
        """As `Map.steps`, of one result by itself."""
        return self.found.steps(self.results[0]) if len(self.results) == 1 else None

    @functools.cached_property
    def _points(self) -> tuple[Ints, bool]:
        own, complete = grid_values.points([self.found.grid[axis] for axis in self.axes])
        at = np.zeros((len(own), len(self.found.grid)), dtype=np.int64)
        at[:, list(self.axes)] = own
        return at, complete

    @property
    def at(self) -> Ints:
        """The grid points that are followed, one row for each."""
        return self._points[0]

    @functools.cached_property
    def complete(self) -> bool:
        """Whether these are all that make a difference."""
        return self.plain is not None or self._points[1]

    @functools.cached_property
    def reached(self) -> Ints | None:
        """Where the results go at each of the points; none where that depends on data."""
        found = at_points(self.found, self.at)
        columns = [found[result] for result in self.results]
        if any(column is None for column in columns):
            return None
        return np.stack(
            [np.broadcast_to(column, (len(self.at),)) for column in columns if column is not None], axis=1
        )

    @functools.cached_property
    def ids(self) -> Ints:
        """Each point's blocks within the group as one number; -1 outside of the array."""
        assert self.reached is not None
        return _ids(self.reached, self.blocks)

    @property
    def blocks(self) -> list[int]:
        """Blocks along the array's axes that the results are for."""
        return [self.found.blocks[result] for result in self.results]

    @functools.cached_property
    def seen(self) -> Ints:
        """The numbers among ``ids``, in order."""
        return np.unique(self.ids)

    @functools.cached_property
    def injective(self) -> bool:
        """Whether no two points, of the axes that matter, have a block in common."""
        return self.plain is not None or len(self.seen) == len(self.at)


def groups_of(found: Map) -> list[Group] | None:
    """The results in groups; none for an empty grid or array, or where some depend on data."""
    if 0 in found.grid or 0 in found.array:
        return None
    wanted = list(range(len(found.block)))
    groups = []
    while wanted:
        members = [wanted.pop(0)]
        used = set(found.axes[members[0]])
        while more := [result for result in wanted if found.axes[result] & used]:
            members += more
            used |= {axis for result in more for axis in found.axes[result]}
            wanted = [result for result in wanted if result not in more]
        group = Group(found, tuple(members), tuple(sorted(used)))
        if group.plain is None and group.reached is None:
            return None
        groups.append(group)
    return groups


def at_points(found: Map, at: Ints) -> list[grid_values.Value]:
    """Each result at each of the grid points in ``at``."""
    jaxpr = jaxapi.open_jaxpr(found.jaxpr)
    ids: list[grid_values.Value] = [at[:, axis] for axis in range(len(found.grid))]
    missing = len(jaxpr.invars) - len(ids) - len(found.tables)
    data: list[grid_values.Value] = [*found.tables, *[None] * missing]
    walked = grid_values.walked(at, found.grid)
    return grid_values.evaluate(jaxpr, ids + data, walked)


def block_ids(found: Map, at: Ints) -> Ints | None:
    """Each grid point's block as one number; none where the map depends on data."""
    ids = np.zeros(len(at), dtype=np.int64)
    for value, size in zip(at_points(found, at), found.blocks, strict=True):
        if value is None:
            return None
        ids = ids * (size + 2) + np.clip(np.broadcast_to(value, (len(at),)), -1, size) + 1
    return ids


def axes_of_each(jaxpr: Any, count: int, grid: Sequence[int]) -> list[set[int]]:
    """The grid axes, longer than one step, that each result is computed from."""
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


def _ids(values: Ints, sizes: Sequence[int]) -> Ints:
    """Rows of block numbers along axes of these sizes, each as one number; -1 outside of the array."""
    inside = ((values >= 0) & (values < np.array(sizes))).all(axis=1)
    ids = np.zeros(len(values), dtype=np.int64)
    for column, size in enumerate(sizes):
        ids = ids * size + values[:, column]
    return np.where(inside, ids, -1)
