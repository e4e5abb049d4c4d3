"""Scalars of a kernel at every point of its grid: index maps, and what a body computes from its program ids.

A value is a numpy array with one entry for each grid point (or one for all of them), or none where it depends on
data. Arithmetic follows `jax.lax`: division truncates, as do the remainders.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from typedpallas.tracing import jaxapi
from typedpallas.tracing.grid import indices as grid_indices

type Value = np.ndarray[Any, Any] | None

MOST_POINTS = 200_000
"""Larger grids are sampled: their corners and a spread of inner points."""
_SPREAD = 40


def points(grid: Sequence[int]) -> tuple[np.ndarray[Any, Any], bool]:
    """Grid points in the order in which they run, last axis fastest, and whether these are all.

    The array has shape ``(points, axes)``.
    """
    if not grid:
        return np.zeros((1, 0), dtype=np.int64), True
    if math.prod(grid) <= MOST_POINTS:
        ids = np.indices(tuple(grid)).reshape(len(grid), -1).T
        return ids, True
    budget = int(MOST_POINTS ** (1 / max(sum(extent > 1 for extent in grid), 1)))
    axes = [_spread(extent, min(budget, _SPREAD)) for extent in grid]
    return np.array(list(itertools.product(*axes))), False


def _spread(extent: int, count: int) -> list[int]:
    """At most ``count`` ids along an axis, both ends among them."""
    return sorted({round(i * (extent - 1) / max(count - 1, 1)) for i in range(count)})


@dataclass(frozen=True)
class Walked:
    """A grid being walked: ``ids[k]`` holds axis ``k`` of each point, as the kernel's body counts axes."""

    ids: tuple[Value, ...]
    extents: tuple[int, ...]


def walked(at: np.ndarray[Any, Any], grid: Sequence[int], hidden: Sequence[int] = ()) -> Walked:
    """The points ``at``; axes in ``hidden`` (made by `jax.vmap`) are not seen by the body."""
    kept = [axis for axis in range(len(grid)) if axis not in hidden]
    return Walked(tuple(at[:, axis] for axis in kept), tuple(grid[axis] for axis in kept))


def evaluate(jaxpr: Any, arguments: Sequence[Value], grid: Walked) -> list[Value]:
    """The results of a jaxpr of scalars.

    ``arguments`` are its inputs', none for data; for a ref the whole table that it holds, if that is known.
    """
    opened = jaxapi.open_jaxpr(jaxpr)
    env: dict[Any, Value] = dict(zip(opened.invars, arguments, strict=True))
    for eqn in opened.eqns:
        env.update(zip(eqn.outvars, results(eqn, env, grid), strict=True))
    return [read(env, atom) for atom in opened.outvars]


def read(env: Mapping[Any, Value], atom: Any) -> Value:
    """The value of an equation's operand."""
    if jaxapi.is_literal(atom):
        return np.asarray(atom.val) if np.ndim(atom.val) == 0 else None
    return env.get(atom)


def results(eqn: Any, env: Mapping[Any, Value], grid: Walked) -> Sequence[Value]:
    """What an equation makes, where that is scalars that follow from known ones; loops are not entered."""
    name = eqn.primitive.name
    unknown: Sequence[Value] = (None,) * len(eqn.outvars)
    if name == "get":
        return (_entries(eqn, env),)
    if any(getattr(var.aval, "shape", None) != () for var in eqn.outvars):
        return unknown
    if name == "program_id":
        return (grid.ids[eqn.params["axis"]],)
    if name == "num_programs":
        return (np.asarray(grid.extents[eqn.params["axis"]]),)
    operands = [read(env, atom) for atom in eqn.invars]
    if name in ("pjit", "jit", "closed_call", "custom_jvp_call"):
        inner = next(iter(jaxapi.inner_jaxprs(eqn)))
        if len(inner.invars) != len(operands):
            return unknown
        return evaluate(inner, operands, grid)
    function = _FUNCTIONS.get(name)
    if name == "select_n":
        return (_select(operands),)
    if name == "convert_element_type":
        return (_converted(operands[0], eqn.outvars[0].aval.dtype),)
    if function is None or any(value is None for value in operands):
        return unknown
    with np.errstate(all="ignore"):
        return (np.asarray(function(*operands)),)


def _entries(eqn: Any, env: Mapping[Any, Value]) -> Value:
    """What a table holds at each point; none where it is not known, or is left at some point."""
    table, index = env.get(eqn.invars[0]), grid_indices.rectangle(eqn)
    if table is None or index is None or any(size != 1 for _, size in index) or eqn.outvars[0].aval.shape != ():
        return None
    places = [np.asarray(start) if isinstance(start, int) else read(env, start) for start, _ in index]
    if any(place is None for place in places):
        return None
    known = [place for place in places if place is not None]
    if any(((place < 0) | (place >= size)).any() for place, size in zip(known, table.shape, strict=True)):
        return None
    return np.asarray(table[tuple(known)])


def _select(operands: Sequence[Value]) -> Value:
    which, *cases = operands
    if which is None or any(case is None for case in cases):
        return None
    return np.choose(which.astype(int), cases)  # type: ignore[arg-type]


def _converted(value: Value, dtype: Any) -> Value:
    if value is None or np.dtype(dtype).kind not in "iub" or value.dtype.kind not in "iub":
        return None
    return value.astype(bool) if np.dtype(dtype).kind == "b" else value.astype(np.int64)


def _divided(left: Any, right: Any) -> Any:
    right = np.where(right == 0, 1, right)
    return np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(right))


def _same(value: Any, *_: Any) -> Any:
    return value


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "div": _divided,
    "rem": lambda left, right: left - _divided(left, right) * right,
    "max": np.maximum,
    "min": np.minimum,
    "clamp": lambda low, value, high: np.clip(value, low, high),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.bitwise_not,
    "shift_left": np.left_shift,
    "shift_right_arithmetic": np.right_shift,
    "multiple_of": _same,
    "stop_gradient": _same,
    "copy": _same,
}
