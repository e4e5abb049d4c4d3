"""Padding that reaches a result: elements of a partial last block that a reduction or a product takes in, unmasked.

Only what surely happens is followed: from a load of a whole block, through functions of single elements, to a
reduction over the partial axis, and on to a store, all in the kernel's own straight line. Whatever may mask, select
or depend on a position ends the trail.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from typedpallas.events import PaddedValue
from typedpallas.tracing import grid_around, grid_indices, grid_values, jaxapi
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall, Operand

_ONE_BY_ONE = frozenset(
    (
        *("neg", "exp", "exp2", "log", "log1p", "expm1", "tanh", "logistic", "sqrt", "rsqrt", "cbrt", "erf", "abs"),
        *("square", "sin", "cos", "floor", "ceil", "round", "integer_pow", "convert_element_type", "copy"),
    )
)
"""Functions of one element. None of them makes something definite of garbage."""
_OF_TWO = frozenset(["add", "sub", "mul", "div"])
"""Functions of two elements that keep garbage, unless one operand is zero or infinite."""
_GATHERING = frozenset(["add", "sub", "max", "min"])
"""How a reduced value joins others."""
_REDUCTIONS = frozenset(["reduce_sum", "reduce_max", "reduce_min", "reduce_prod"])


@dataclass(frozen=True)
class _Taint:
    """A value with padding in it, or made of it."""

    operand: Operand
    axis: int | None
    """Where in the value the padding lies; none once a reduction has taken it in."""
    array_axis: int
    primitive: str = ""


def events(kernel: KernelCall) -> Iterator[Located]:
    """One event for each operand whose padding reaches a result, at the line of the reduction."""
    ragged = {
        var: operand
        for var, operand in zip(kernel.jaxpr.invars, kernel.operands, strict=False)
        if operand.role == "in" and any(True for _ in partial_axes(operand))
    }
    if not ragged:
        return
    found: dict[str, tuple[_Taint, Any]] = {}
    _walk(kernel.jaxpr, {}, ragged, found, _results(kernel))
    for taint, eqn in found.values():
        event = _event(taint, kernel.grid)
        if event is not None:
            yield Located(event, jaxapi.place(eqn), kernel.name)


def partial_axes(operand: Operand) -> Iterator[tuple[int, int, int]]:
    """The axes on which a block does not divide its array: axis, block, extent; elements."""
    for axis, (size, extent) in enumerate(zip(operand.block or (), operand.array or (), strict=False)):
        if isinstance(size, int) and size > 1 and isinstance(extent, int) and extent % size:
            yield axis, size, extent


def _results(kernel: KernelCall) -> set[Any]:
    """The outputs whose every element the program uses."""
    refs = [var for var, operand in zip(kernel.jaxpr.invars, kernel.operands, strict=False) if operand.role == "out"]
    return {ref for number, ref in enumerate(refs) if grid_around.result_is_whole(kernel, number)}


def _walk(
    jaxpr: Any, taints: dict[Any, _Taint], refs: dict[Any, Operand], found: dict[str, Any], results: set[Any]
) -> None:
    reductions: dict[Any, Any] = {}
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in ("swap", "addupdate"):
            ref, value = eqn.invars[:2]
            taint = None if jaxapi.is_literal(value) else taints.get(value)
            if ref in results and taint is not None and taint.axis is None:
                found.setdefault(taint.operand.name, (taint, reductions.get(value, eqn)))
            continue
        made = _made(eqn, taints, refs)
        if made is None:
            continue
        taints[eqn.outvars[0]] = made
        source = next((atom for atom in eqn.invars if not jaxapi.is_literal(atom) and atom in reductions), None)
        if made.axis is None:
            reductions[eqn.outvars[0]] = eqn if source is None else reductions[source]


def _made(eqn: Any, taints: dict[Any, _Taint], refs: dict[Any, Operand]) -> _Taint | None:
    """What an equation's first result holds of the padding."""
    name = eqn.primitive.name
    if name == "get":
        return _loaded(eqn, refs)
    tainted = [taints[atom] for atom in eqn.invars if not jaxapi.is_literal(atom) and atom in taints]
    if not tainted:
        return None
    taint = tainted[0]
    if name in _ONE_BY_ONE or (name in _OF_TWO and _keeps(eqn, taints)):
        return taint
    if name in _GATHERING and taint.axis is None and len(tainted) == 1:
        return taint
    if name in _REDUCTIONS and taint.axis is not None:
        axes = eqn.params["axes"]
        if taint.axis in axes:
            return replace(taint, axis=None, primitive=name)
        return replace(taint, axis=taint.axis - sum(axis < taint.axis for axis in axes))
    if name == "dot_general" and len(tainted) == 2:
        (left, right), batch = eqn.params["dimension_numbers"]
        pairs = list(zip(left, right, strict=True))
        if (tainted[0].axis, tainted[1].axis) in pairs and not any(batch):
            return replace(taint, axis=None, primitive=name)
        return None
    if name in ("broadcast_in_dim", "reshape", "squeeze", "expand_dims") and taint.axis is None:
        return taint
    if name == "broadcast_in_dim" and taint.axis is not None:
        return replace(taint, axis=eqn.params["broadcast_dimensions"][taint.axis])
    return None


def _keeps(eqn: Any, taints: dict[Any, _Taint]) -> bool:
    """Whether garbage stays garbage: the other operand is a plain number that is not zero, or padding itself.

    Adding any array may mask: minus infinity, where a maximum follows.
    """
    for atom in eqn.invars:
        if jaxapi.is_literal(atom):
            value = atom.val
            if getattr(value, "size", 1) != 1 or not 1e-30 < abs(float(value)) < 1e30:
                return False
        elif atom not in taints:
            return False
    return len({taints[atom].axis for atom in eqn.invars if not jaxapi.is_literal(atom)}) == 1


def _loaded(eqn: Any, refs: dict[Any, Operand]) -> _Taint | None:
    """A load of a whole block that has one partial axis."""
    operand = refs.get(eqn.invars[0])
    if operand is None:
        return None
    index = grid_indices.rectangle(eqn)
    if index is None or [size for _, size in index] != list(operand.shape or ()):
        return None
    if len(eqn.outvars[0].aval.shape) != len(index):
        return None
    partial = list(partial_axes(operand))
    if len(partial) != 1:
        return None
    axis = partial[0][0]
    squeezed = sum(dim == "squeezed" for dim in (operand.block or ())[:axis])
    return _Taint(operand, axis - squeezed, axis)


def _event(taint: _Taint, grid: tuple[int | None, ...]) -> PaddedValue | None:
    """The event, where the last grid point surely visits the partial block, so that nothing is stored over it."""
    if not all(grid):
        return None
    extents = tuple(extent or 0 for extent in grid)
    point = tuple(extent - 1 for extent in extents)
    axis, size, extent = next(iter(partial_axes(taint.operand)))
    last = extent // size
    index_map = jaxapi.open_jaxpr(taint.operand.mapping.index_map_jaxpr)
    hidden = [None] * (len(index_map.invars) - len(point))
    ids = [np.asarray([value]) for value in point]
    block = grid_values.evaluate(index_map, [*ids, *hidden], grid_values.walked(np.array([point]), extents))[axis]
    if block is None or int(block.reshape(-1)[0]) != last:
        return None
    return PaddedValue(
        name=taint.operand.name,
        axis=axis,
        extent=extent,
        loaded=(last * size, (last + 1) * size),
        primitive=taint.primitive,
        step=point,
    )
