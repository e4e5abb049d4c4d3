"""How garbage goes through an operation on values: it stays, it is dropped, or nobody knows.

Garbage of unwritten memory is told from padding, what lies past an array's end: a kernel may well multiply the first
by a zero that drops it, as nothing else can be meant. Padding times zero is what JAX's interpret modes say it is:
not a number, where the element type has such.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow import cells
from typedpallas.tracing.flow.cells import Cells
from typedpallas.tracing.flow.choices import lesser, selected
from typedpallas.tracing.flow.masks import Facts, Made
from typedpallas.tracing.flow.moves import MOVES
from typedpallas.tracing.flow.products import dot
from typedpallas.tracing.flow.spans import Span

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
_KEEPS_PADDING = frozenset(
    (
        *("asin", "acos", "atan", "asinh", "acosh", "atanh", "erfc", "erf_inv", "lgamma", "sign", "rem", "clamp"),
        *("not", "xor", "shift_left", "shift_right_arithmetic", "shift_right_logical", "is_finite"),
    )
)
"""Of unwritten memory these may make something definite."""
_ONLY_FLOATS = frozenset({"div", "rem", "max", "min", "pow", "integer_pow", "clamp", "sign"})
"""On whole numbers these may drop garbage: a zero, a bound that wins."""
_TESTS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "is_finite"})
_ENDS = 1e30
"""Who compares with more than that, or less, asks whether there is a number at all."""
_MOVES = frozenset(
    (
        *("dynamic_slice", "rev", "roll", "gather", "repeat", "tile"),
        *("bitcast", "bitcast_convert_type", "pack_elementwise", "unpack_elementwise"),
    )
)
"""Each element of the result is one of the first operand's."""
MIXES = frozenset(
    (
        *("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "argmax", "argmin", "dot_general"),
        *("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "roll", "rev"),
    )
)
"""Where elements of one position reach others."""

STAYS_DOUBTFUL = frozenset(
    (
        *(*_KEEPS, *_KEEPS_PADDING, "mul"),
        *("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "slice", "dot_general"),
        *("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "argmax", "argmin"),
        *("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"),
    )
)
"""Where all of each operand is either meant or may be garbage, and all of one may be, all of the result may be."""


def through(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    """The cells of each result."""
    name = eqn.primitive.name
    shape = getattr(eqn.outvars[0].aval, "shape", None)
    if shape is None:
        return cells.unknown(parts)
    if name in _KEEPS or name in _KEEPS_PADDING or name in _BY_VALUE:
        parts = [_fitting(part, atom, shape) for part, atom in zip(parts, eqn.invars, strict=True)]
    if name in _BY_VALUE:
        return _BY_VALUE[name](eqn, parts, facts)
    if name in _KEEPS or name in _KEEPS_PADDING:
        kept = cells.computed(*parts)
        return cells.doubtful(kept) if _may_settle(eqn, facts) else kept
    function = _SHAPED.get(name)
    if function is not None and len(eqn.outvars) == 1:
        return function(eqn, parts, facts)
    return cells.one(parts[0]) if name in _MOVES and not any(map(cells.worst, parts[1:])) else cells.unknown(parts)


def _may_settle(eqn: Any, facts: Facts) -> bool:
    """Whether an operation may make something definite of garbage."""
    name = eqn.primitive.name
    if facts.kind == "truth" and name in ("max", "min", "clamp"):
        return True
    if name in ("max", "min") and facts.kind != "memory":
        return _is_whole(eqn) and any(facts.span(atom) is not None for atom in eqn.invars)
    if name in _ONLY_FLOATS:
        return _is_whole(eqn)
    if facts.kind == "memory":
        return name in _KEEPS_PADDING
    return name in _TESTS and _asks_for_numbers(eqn)


def _asks_for_numbers(eqn: Any) -> bool:
    """Whether a test may be meant to find what is no number, or holds for all of them."""
    if eqn.primitive.name == "is_finite" or eqn.invars[0] is eqn.invars[1]:
        return True
    constants = [np.asarray(atom.val) for atom in eqn.invars if jaxapi.is_literal(atom)]
    dtype = eqn.invars[0].aval.dtype
    ends = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in ("i", "u") else (-_ENDS, _ENDS)
    return any(not np.all((value > ends[0]) & (value < ends[1])) for value in constants)


def made_of(eqn: Any) -> Literal["truth", "whole"] | None:
    """What an operation makes of garbage: a truth value, or a whole number of one that had a fraction."""
    if eqn.primitive.name in _TESTS:
        return "truth"
    return "whole" if eqn.primitive.name == "convert_element_type" and not _is_whole(eqn) and _to_whole(eqn) else None


def _fitting(part: Cells, atom: Any, shape: Sequence[int]) -> Cells:
    """Cells of an elementwise operand; its rank may be 0."""
    return part if cells.fits(part, shape) else cells.one(part)


def _is_whole(eqn: Any) -> bool:
    dtype = getattr(eqn.invars[0].aval, "dtype", None)
    return getattr(dtype, "kind", "f") in ("i", "u", "b")


def _to_whole(eqn: Any) -> bool:
    return getattr(eqn.outvars[0].aval.dtype, "kind", "f") in ("i", "u", "b")


def _product(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    """A factor that may be zero may drop garbage.

    Of NaN a zero makes NaN, but XLA makes a choice of a product with truth values, and nobody means another.
    """
    whole, kept = _is_whole(eqn), cells.computed(*parts)
    if facts.kind == "memory":
        left, right = (is_mask(atom, facts.made) for atom in eqn.invars)
        return cells.doubtful(kept) if whole or (cells.worst(parts[0]) and right) or left else kept
    found: Cells = lesser(*parts)
    for part, other in ((parts[0], eqn.invars[1]), (parts[1], eqn.invars[0])):
        span = facts.span(other)
        if span is not None:
            beside = _beside(part, span, (0, cells.MEANT if whole else cells.MAYBE), eqn.outvars[0].aval.shape)
        else:
            beside = cells.doubtful(part) if whole or is_mask(other, facts.made) else part
        found = cells.computed(found, beside)
    return found


def _beside(part: Cells, other: Span, drops: tuple[int, int], shape: Sequence[int]) -> Cells:
    """Garbage beside another operand: what is left where that is the first of ``drops`` is the second.

    Where the other operand surely is something else, garbage stays.
    """
    zero, rest = drops
    if not cells.worst(part):
        return cells.MEANT
    if other is None:
        return cells.doubtful(part)
    low, high = other
    gone, kept = (low == zero) & (high == zero), (high < zero) | (low > zero)
    codes = np.asarray(part, np.uint8)
    found = np.where(gone, np.minimum(codes, rest), np.where(kept, np.minimum(codes, cells.SPOILED), codes > 0))
    return cells.as_cells(found, shape)


def _both(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    """``and``: garbage goes where the other operand has no bit, or is false."""
    return _bitwise(eqn, parts, facts, drops=0)


def _either(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    """``or``: garbage goes where the other operand is true, or has every bit."""
    return _bitwise(eqn, parts, facts, drops=1 if eqn.outvars[0].aval.dtype.kind == "b" else -1)


def _bitwise(eqn: Any, parts: Sequence[Cells], facts: Facts, drops: int) -> Cells:
    found = lesser(*parts)
    for part, other in ((parts[0], eqn.invars[1]), (parts[1], eqn.invars[0])):
        beside = _beside(part, facts.span(other), (drops, cells.MEANT), eqn.outvars[0].aval.shape)
        found = cells.computed(found, beside)
    return found


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


def _reduced(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    part, name = parts[0], eqn.primitive.name
    found = part if isinstance(part, int) else cells.slim(part.max(axis=tuple(eqn.params["axes"])))
    kept = cells.computed(found)
    if name in ("argmax", "argmin"):
        return cells.doubtful(kept) if facts.kind == "memory" else kept
    if facts.kind == "truth" and name in ("reduce_max", "reduce_min", "reduce_prod", "argmax", "argmin"):
        return cells.doubtful(kept)
    may_drop = name == "reduce_prod" or (facts.kind == "memory" and name in ("reduce_max", "reduce_min"))
    return cells.doubtful(kept) if may_drop and _is_whole(eqn) else kept


def _accumulated(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    part, axis = cells.computed(parts[0]), eqn.params["axis"]
    if isinstance(part, int):
        return part
    if eqn.params["reverse"]:
        return cells.slim(np.flip(np.maximum.accumulate(np.flip(part, axis), axis=axis), axis))
    return cells.slim(np.maximum.accumulate(part, axis=axis))


def _dot(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    """Of unwritten memory, a zero among the factors may be meant to drop it."""
    masked = any(is_mask(atom, facts.made) for atom in eqn.invars)
    if facts.kind == "memory" and (_is_whole(eqn) or masked):
        return cells.unknown(parts)
    how: Any = {"memory": "whole rows", "nan": "any"}.get(facts.kind, "both")
    return dot(eqn, parts, "both" if _is_whole(eqn) else how)


_BY_VALUE: Mapping[str, Callable[[Any, Sequence[Cells], Facts], Cells]] = {
    "mul": _product,
    "and": _both,
    "or": _either,
    "select_n": selected,
}
_SHAPED: Mapping[str, Callable[[Any, Sequence[Cells], Facts], Cells]] = {
    **MOVES,
    **dict.fromkeys(("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "argmax", "argmin"), _reduced),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"), _accumulated),
    "dot_general": _dot,
}
