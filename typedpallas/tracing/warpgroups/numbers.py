"""Whole scalars of a kernel that is followed turn by turn: each is a number or, where nothing is known, none."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from typedpallas.tracing import jaxapi

type Frame = dict[Any, Any]
"""What the variables in scope stand for: whole numbers, buffers; the unknown are left out."""


def constant(value: Any) -> int | None:
    """A constant in a jaxpr, where it is a whole scalar."""
    if isinstance(value, bool | int | np.bool_ | np.integer):
        return int(value)
    array = np.asarray(value)
    return int(array) if array.shape == () and array.dtype.kind in "iub" else None


def is_number(atom: Any) -> bool:
    """Whether a variable holds a whole scalar or a truth value."""
    dtype = getattr(atom.aval, "dtype", None)
    return getattr(atom.aval, "shape", None) == () and getattr(dtype, "kind", "") in ("i", "u", "b")


def read(frame: Frame, atom: Any) -> Any:
    """What an operand stands for; none where nothing is known of it."""
    return constant(atom.val) if jaxapi.is_literal(atom) else frame.get(atom)


def reader(atom: Any) -> Callable[[Frame], Any]:
    """`read`, made ready for one operand."""
    if jaxapi.is_literal(atom):
        value = constant(atom.val)
        return lambda frame: value
    return lambda frame: frame.get(atom)


def computation(eqn: Any) -> Callable[[Frame], int | None] | None:
    """What an equation with one whole scalar for a result computes; none if that is not known."""
    operands = [reader(atom) for atom in eqn.invars]
    name, dtype = eqn.primitive.name, eqn.outvars[0].aval.dtype
    if name == "select_n":
        return _selection(operands)
    function = _boolean(name, eqn) or _FUNCTIONS.get(name)
    if function is None or not operands:
        return None
    fit = _fitting(dtype)

    def compute(frame: Frame) -> int | None:
        values = [operand(frame) for operand in operands]
        if None in values:
            return None
        found = function(*values)
        return None if found is None else fit(found)

    return compute


def _selection(operands: list[Callable[[Frame], Any]]) -> Callable[[Frame], int | None]:
    which, *cases = operands

    def select(frame: Frame) -> int | None:
        chosen = which(frame)
        return None if chosen is None else cases[chosen](frame)

    return select


def _boolean(name: str, eqn: Any) -> Callable[..., int] | None:
    """Operations that differ for truth values; ``and`` is known where one side is false, but both must be known."""
    if eqn.outvars[0].aval.dtype.kind != "b":
        return None
    if name == "not":
        return lambda value: 1 - value
    return (lambda value: int(value != 0)) if name == "convert_element_type" else None


def _fitting(dtype: Any) -> Callable[[int], int]:
    """Numbers past the ends of an element type wrap around."""
    if dtype.kind == "b":
        return lambda value: value
    bits = 8 * dtype.itemsize
    low, size = (0 if dtype.kind == "u" else -(1 << bits - 1)), 1 << bits
    return lambda value: (value - low) % size + low


def _quotient(left: int, right: int) -> int | None:
    if right == 0:
        return None
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _remainder(left: int, right: int) -> int | None:
    whole = _quotient(left, right)
    return None if whole is None else left - whole * right


_FUNCTIONS: Mapping[str, Callable[..., int | None]] = {
    **dict.fromkeys(
        ("convert_element_type", "multiple_of", "stop_gradient", "copy", "squeeze", "reshape", "broadcast_in_dim"),
        lambda value: value,
    ),
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "div": _quotient,
    "rem": _remainder,
    "max": max,
    "min": min,
    "clamp": lambda low, x, high: min(max(x, low), high),
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "lt": lambda a, b: int(a < b),
    "gt": lambda a, b: int(a > b),
    "le": lambda a, b: int(a <= b),
    "ge": lambda a, b: int(a >= b),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "shift_left": lambda a, b: a << b if 0 <= b < 64 else None,
    "shift_right_arithmetic": lambda a, b: a >> b if 0 <= b < 64 else None,
}
