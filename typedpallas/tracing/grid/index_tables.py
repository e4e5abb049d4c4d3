"""Where index maps read their tables: an index past a table's end is as wrong as one past a ref's in the body."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from typedpallas import tpu
from typedpallas.events import Slice, SlicePart, Step
from typedpallas.tracing import jaxapi
from typedpallas.tracing.grid import indices as grid_indices
from typedpallas.tracing.grid import values as grid_values
from typedpallas.tracing.grid.values import Value
from typedpallas.tracing.walk import KernelCall, Operand

_CHOOSERS = frozenset({"select_n", "min", "max", "clamp", "rem", "cond", "pjit", "jit"})
"""What can drop a number that was read: a map with one of them is left alone."""


def reads(kernel: KernelCall, operand: Operand) -> Iterator[Slice]:
    """Each read of a table, by the operand's index map, that leaves the table at some grid point."""
    jaxpr = jaxapi.open_jaxpr(operand.mapping.index_map_jaxpr)
    extents = tuple(extent for extent in kernel.grid if extent is not None)
    if len(extents) != len(kernel.grid) or 0 in extents:
        return
    names = {eqn.primitive.name for eqn in jaxpr.eqns}
    if "get" not in names or names & _CHOOSERS:
        return
    tables = dict(zip(jaxpr.invars[len(extents) :], kernel.operands, strict=False))
    at, _ = grid_values.points(extents)
    walked = grid_values.walked(at, extents)
    env: dict[Any, Value] = {var: at[:, axis] for axis, var in enumerate(jaxpr.invars[: len(extents)])}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "get" and eqn.invars[0] in tables:
            found = _outside(eqn, tables[eqn.invars[0]], env, at)
            if found is not None:
                yield found
        env.update(zip(eqn.outvars, grid_values.results(eqn, env, walked), strict=True))


def entries(
    jaxpr: Any, point: Sequence[int], names: Sequence[str], contents: Sequence[Any], grid: Sequence[int]
) -> Iterator[tuple[str, int]]:
    """The entries that an index map reads at one grid point, ``table[3, 0]``, with what they hold."""
    opened = jaxapi.open_jaxpr(jaxpr)
    at = np.array([point], dtype=np.int64)
    walked = grid_values.walked(at, grid)
    env: dict[Any, Value] = {var: at[:, axis] for axis, var in enumerate(opened.invars[: len(point)])}
    tables = dict(zip(opened.invars[len(point) :], zip(names, contents, strict=False), strict=False))
    env |= {var: content for var, (_, content) in tables.items()}
    for eqn in opened.eqns:
        found = grid_values.results(eqn, env, walked)
        if eqn.primitive.name == "get" and eqn.invars[0] in tables and found[0] is not None:
            index = grid_indices.rectangle(eqn) or []
            places = [np.asarray(start) if isinstance(start, int) else env.get(start) for start, _ in index]
            if all(place is not None for place in places):
                where = ", ".join(str(int(np.ravel(place)[0])) for place in places if place is not None)
                yield f"{tables[eqn.invars[0]][0]}[{where}]", int(np.ravel(found[0])[0])
        env.update(zip(eqn.outvars, found, strict=True))


def _outside(eqn: Any, table: Operand, env: dict[Any, Value], at: Any) -> Slice | None:
    index = grid_indices.rectangle(eqn)
    if index is None or table.shape is None or len(index) != len(table.shape):
        return None
    parts = []
    for axis, ((start, size), extent) in enumerate(zip(index, table.shape, strict=True)):
        value = np.asarray(start) if isinstance(start, int) else grid_values.read(env, start)
        if value is None or extent is None:
            continue
        values = np.broadcast_to(value, (len(at),))
        wrong = np.nonzero((values < 0) | (values + size > extent))[0]
        step = _step(at[wrong[0]], int(values[wrong[0]])) if len(wrong) else None
        parts.append(SlicePart(axis=axis, extent=extent, start=None, size=size, squeezed=True, outside=step))
    if all(part.outside is None for part in parts):
        return None
    return Slice(name=table.name, op="load", space=tpu.SMEM, dtype=table.dtype, parts=tuple(parts), laid_out=False)


def _step(point: Any, start: int) -> Step:
    return Step(at={f"grid id {axis}": int(value) for axis, value in enumerate(point)}, start=start)
