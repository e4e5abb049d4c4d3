"""How garbage goes through an operation on values: it stays, it may be dropped, or nobody knows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from typedpallas.tracing import flow_cells as cells
from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow_cells import Cells
from typedpallas.tracing.flow_numbers import Number

type Made = Mapping[Any, Any]
"""The equation that makes each variable of a jaxpr."""

_KEEPS = frozenset(
    (
        *(
            "add",
            "add_any",
            "sub",
            "neg",
            "div",
            "max",
            "min",
            "abs",
            "pow",
            "integer_pow",
            "square",
            "sqrt",
            "rsqrt",
        ),
        *("exp", "exp2", "expm1", "log", "log1p", "logistic", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan2"),
        *("erf", "cbrt", "floor", "ceil", "round", "eq", "ne", "lt", "le", "gt", "ge", "convert_element_type"),
        *("copy", "stop_gradient", "reduce_precision", "optimization_barrier", "multiple_of"),
    )
)
_ONLY_FLOATS = frozenset({"div", "max", "min", "pow", "integer_pow", "reduce_max", "reduce_min", "reduce_prod"})
"""On whole numbers these may drop garbage: a zero, a bound that wins."""
_MOVES = frozenset(
    (
        *("dynamic_slice", "rev", "roll", "gather", "repeat", "tile"),
        *("bitcast", "bitcast_convert_type", "pack_elementwise", "unpack_elementwise"),
    )
)
"""Each element of the result is one of the first operand's."""


def through(eqn: Any, parts: Sequence[Cells], made: Made, which: Number) -> Cells:
    """The cells of each result; ``which`` is what is known of a select's condition."""
    name = eqn.primitive.name
    shape = getattr(eqn.outvars[0].aval, "shape", None)
    if shape is None:
        return _unknown(parts)
    if name in _KEEPS or name in ("mul", "select_n"):
        parts = [_fitting(part, atom, shape) for part, atom in zip(parts, eqn.invars, strict=True)]
    if name == "mul":
        return _product(eqn, parts, made)
    if name == "select_n":
        return _selected(parts, which)
    if name in _KEEPS:
        kept = cells.computed(*parts)
        return cells.doubtful(kept) if name in _ONLY_FLOATS and _is_whole(eqn) else kept
    function = _SHAPED.get(name)
    if function is not None and len(eqn.outvars) == 1:
        return function(eqn, parts, made)
    return cells.one(parts[0]) if name in _MOVES and not any(map(cells.worst, parts[1:])) else _unknown(parts)


def _unknown(parts: Sequence[Cells]) -> Cells:
    return cells.MAYBE if any(map(cells.worst, parts)) else cells.MEANT


def _fitting(part: Cells, atom: Any, shape: Sequence[int]) -> Cells:
    """Cells of an elementwise operand; its rank may be 0."""
    if isinstance(part, int) or part.shape == tuple(shape):
        return part
    return cells.one(part)


def _is_whole(eqn: Any) -> bool:
    dtype = getattr(eqn.invars[0].aval, "dtype", None)
    return getattr(dtype, "kind", "f") in ("i", "u", "b")


def _product(eqn: Any, parts: Sequence[Cells], made: Made) -> Cells:
    """Garbage times zero is garbage only where garbage may be NaN, and a mask is meant to drop it."""
    left, right = eqn.invars
    drops = _is_whole(eqn) or (cells.worst(parts[0]) and is_mask(right, made)) or is_mask(left, made)
    kept = cells.computed(*parts)
    return cells.doubtful(kept) if drops else kept


def is_mask(atom: Any, made: Made, depth: int = 8) -> bool:
    """Whether a factor is computed from truth values, so that it may well be zero on purpose."""
    if jaxapi.is_literal(atom):
        return bool(np.all(np.asarray(atom.val) == 0))
    eqn = made.get(atom)
    if eqn is None or depth == 0:
        return False
    name = eqn.primitive.name
    if name == "select_n":
        return True
    if name == "convert_element_type" and eqn.invars[0].aval.dtype.kind == "b":
        return True
    if name in ("jit", "pjit"):
        return any(inner.primitive.name == "select_n" for body in jaxapi.inner_jaxprs(eqn) for inner in body.eqns)
    if name in ("convert_element_type", "broadcast_in_dim", "reshape", "squeeze", "mul", "expand_dims", "transpose"):
        return any(is_mask(operand, made, depth - 1) for operand in eqn.invars if not jaxapi.is_literal(operand))
    return False


def _selected(parts: Sequence[Cells], which: Number) -> Cells:
    condition, *cases = parts
    if which is not None and which[0] == which[1]:
        return cells.computed(cases[which[0]])
    found = cells.computed(cases[0])
    for case in cases[1:]:
        found = cells.join(found, cells.computed(case))
    return cells.doubtful(found) if cells.worst(condition) else found


def _broadcast(eqn: Any, parts: Sequence[Cells], made: Made) -> Cells:
    part, shape = parts[0], eqn.outvars[0].aval.shape
    if isinstance(part, int):
        return part
    sizes = [1] * len(shape)
    for axis, size in zip(eqn.params["broadcast_dimensions"], part.shape, strict=True):
        sizes[axis] = size
    return np.broadcast_to(part.reshape(sizes), shape)


def _reshaped(eqn: Any, parts: Sequence[Cells], made: Made) -> Cells:
    part, shape = parts[0], eqn.outvars[0].aval.shape
    return part if isinstance(part, int) else part.reshape(shape)


def _transposed(eqn: Any, parts: Sequence[Cells], made: Made) -> Cells:
    return parts[0] if isinstance(parts[0], int) else parts[0].transpose(eqn.params["permutation"])


def _sliced(eqn: Any, parts: Sequence[Cells], made: Made) -> Cells:
    part, params = parts[0], eqn.params
    if isinstance(part, int):
        return part
    steps = params["strides"] or (1,) * part.ndim
    bounds = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
    return cells.slim(part[tuple(slice(*bound) for bound in bounds)])


def _reduced(eqn: Any, parts: Sequence[Cells], made: Made) -> Cells:
    part = parts[0]
    found = part if isinstance(part, int) else cells.slim(part.max(axis=tuple(eqn.params["axes"])))
    kept = cells.computed(found)
    return cells.doubtful(kept) if eqn.primitive.name in _ONLY_FLOATS and _is_whole(eqn) else kept


def _joined(eqn: Any, parts: Sequence[Cells], made: Made) -> Cells:
    if all(isinstance(part, int) for part in parts) and len({*parts}) == 1:
        return parts[0]
    if not cells.followed(eqn.outvars[0].aval.shape):
        return _unknown(parts)
    spread = [cells.spread(part, atom.aval.shape) for part, atom in zip(parts, eqn.invars, strict=True)]
    return cells.slim(np.concatenate(spread, axis=eqn.params["dimension"]))


def _dot(eqn: Any, parts: Sequence[Cells], made: Made) -> Cells:
    """Garbage stays where a whole row of it is multiplied; among other terms a zero may be meant to drop it."""
    (contract, batch) = eqn.params["dimension_numbers"]
    if _is_whole(eqn) or any(is_mask(atom, made) for atom in eqn.invars):
        return _unknown(parts)
    rows: list[Cells] = []
    for part, axes in zip(parts, contract, strict=True):
        if isinstance(part, int):
            rows.append(min(part, cells.SPOILED))
        else:
            least, most = part.min(axis=tuple(axes)), part.max(axis=tuple(axes))
            garbage = np.where(least >= cells.SPOILED, cells.SPOILED, np.minimum(most, cells.MAYBE))
            rows.append(cells.slim(garbage.astype(np.uint8)))
    if all(isinstance(row, int) for row in rows):
        return max(rows)
    if batch[0]:
        return cells.one(rows[0]) if isinstance(rows[1], int) and rows[1] == cells.MEANT else _unknown(parts)
    shape = eqn.outvars[0].aval.shape
    if not cells.followed(shape):
        return _unknown(parts)
    left, right = rows
    free = eqn.invars[0].aval.ndim - len(contract[0])
    wide = left if isinstance(left, int) else left.reshape(left.shape + (1,) * (len(shape) - free))
    return cells.slim(cells.spread(cells.computed(wide, right), shape))


_SHAPED: Mapping[str, Callable[[Any, Sequence[Cells], Made], Cells]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshaped,
    "squeeze": _reshaped,
    "expand_dims": _reshaped,
    "transpose": _transposed,
    "slice": _sliced,
    "reduce_sum": _reduced,
    "reduce_max": _reduced,
    "reduce_min": _reduced,
    "reduce_prod": _reduced,
    "concatenate": _joined,
    "dot_general": _dot,
}
