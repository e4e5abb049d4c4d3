"""Whole numbers inside a kernel, as intervals: program ids, loop counters, indices, conditions.

A number is ``(low, high)``, both included, or none where nothing is known. Truth values are 0 and 1. Arithmetic
follows `jax.lax`: division truncates, as do remainders. Where it is known that the values lie a step apart, as those
of every second turn of a loop do, the number is a `Stepped`; then its remainders are exact.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from typedpallas.tracing import jaxapi

type Number = tuple[int, int] | None


class Stepped(tuple[int, int]):
    """The whole numbers ``low, low + step, ...`` that are at most ``high``."""

    step: int

    @staticmethod
    def of(low: int, high: int, step: int) -> Number:
        """Such numbers; a plain interval where that says as much."""
        if low == high or step < 2:
            return low, high
        found = Stepped((low, high))
        found.step = step
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and tuple.__eq__(self, other) and _step(self) == _step(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return tuple.__hash__(self)


def linear(start: Number, stride: int, turns: Number) -> Number:
    """``start + stride * turns``."""
    if start is None or turns is None:
        return None
    ends = [start[side] + stride * turn for side in (0, 1) for turn in (turns[0], turns[1])]
    apart = math.gcd(_step(start), abs(stride) * _step(turns))
    return Stepped.of(min(ends), max(ends), apart)


def _step(number: Any) -> int:
    """By how much the values of a number lie apart: every distance is a multiple of it; 0 for one value."""
    if number[0] == number[1]:
        return 0
    return number.step if isinstance(number, Stepped) else 1


def exact(number: Number) -> int | None:
    """The value, where it is one."""
    return number[0] if number is not None and number[0] == number[1] else None


def hull(left: Number, right: Number) -> Number:
    """The smallest interval around both."""
    if left is None or right is None:
        return None
    return min(left[0], right[0]), max(left[1], right[1])


def literal(value: Any) -> Number:
    """A constant; none if it is no whole scalar."""
    if isinstance(value, bool | int | np.bool_ | np.integer):
        return int(value), int(value)
    array = np.asarray(value)
    return (int(array), int(array)) if array.shape == () and array.dtype.kind in "iub" else None


def is_number(atom: Any) -> bool:
    """Whether an equation's operand or result is a whole scalar or a truth value."""
    dtype = getattr(atom.aval, "dtype", None)
    return getattr(atom.aval, "shape", None) == () and getattr(dtype, "kind", "") in ("i", "u", "b")


def result(eqn: Any, operands: Sequence[Number]) -> Number:
    """What an equation with one scalar result makes of its operands."""
    name = eqn.primitive.name
    if name == "select_n":
        return _select(operands)
    if name == "convert_element_type" and eqn.outvars[0].aval.dtype.kind == "b":
        return _compared(_equal, operands[0], (0, 0), negate=True)
    function = _FUNCTIONS.get(name)
    if function is None or not operands or any(number is None for number in operands):
        return None
    found = _apart(name, operands) or function(*operands)
    return found if found is not None and _fits(found, eqn.outvars[0].aval.dtype) else None


def _apart(name: str, operands: Sequence[Any]) -> Number:
    """What an operation makes of numbers that lie a step apart; none where that step is of no use."""
    if name not in ("add", "sub", "mul", "rem", "and", "div"):
        return None
    if all(_step(number) < 2 for number in operands) and name != "mul":
        return None
    left, right = operands
    by = exact(right)
    if name in ("add", "sub"):
        low, high = _FUNCTIONS[name](left, right) or (0, 0)
        return Stepped.of(low, high, math.gcd(_step(left), _step(right)))
    if name == "mul":
        factor = by if by is not None else exact(left)
        low, high = _FUNCTIONS[name](left, right) or (0, 0)
        return None if factor is None else Stepped.of(low, high, abs(factor) * max(_step(left), _step(right)))
    if by is None or by < 1 or left[0] < 0:
        return None
    if name == "and":
        return _exact(left[0] & by) if by & (by + 1) == 0 and _step(left) % (by + 1) == 0 else None
    if _step(left) % by:
        return None
    return _exact(left[0] % by) if name == "rem" else Stepped.of(left[0] // by, left[1] // by, _step(left) // by)


def _exact(value: int) -> Number:
    return value, value


def _fits(number: tuple[int, int], dtype: Any) -> bool:
    """Whether arithmetic stays within an element type; past its ends it wraps around."""
    bits = 8 * dtype.itemsize
    low, high = (0, (1 << bits) - 1) if dtype.kind == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return low <= number[0] and number[1] <= high


def _select(operands: Sequence[Number]) -> Number:
    which, *cases = operands
    if which is None:
        which = (0, len(cases) - 1)
    found: Number = cases[which[0]]
    for case in cases[which[0] + 1 : which[1] + 1]:
        found = hull(found, case)
    return found


def _around(function: Callable[[int, int], int]) -> Callable[..., Number]:
    def apply(left: tuple[int, int], right: tuple[int, int]) -> Number:
        corners = [function(a, b) for a in left for b in right]
        return min(corners), max(corners)

    return apply


def _quotient(left: int, right: int) -> int:
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _divided(left: tuple[int, int], right: tuple[int, int]) -> Number:
    if right[0] <= 0 <= right[1]:
        return None
    return _around(_quotient)(left, right)


def _remainder(left: tuple[int, int], right: tuple[int, int]) -> Number:
    by = exact(right)
    if by is None or by == 0:
        return None
    by = abs(by)
    if left[0] == left[1] or (left[0] >= 0 and left[0] // by == left[1] // by):
        low, high = (left[k] - _quotient(left[k], by) * by for k in (0, 1))
        return low, high
    return (0 if left[0] >= 0 else 1 - by), (0 if left[1] <= 0 else by - 1)


def _equal(left: tuple[int, int], right: tuple[int, int]) -> bool | None:
    if left[1] < right[0] or right[1] < left[0]:
        return False
    return True if left == right and left[0] == left[1] else None


def _less(left: tuple[int, int], right: tuple[int, int]) -> bool | None:
    if left[1] < right[0]:
        return True
    return False if left[0] >= right[1] else None


def _less_equal(left: tuple[int, int], right: tuple[int, int]) -> bool | None:
    if left[1] <= right[0]:
        return True
    return False if left[0] > right[1] else None


def _compared(test: Callable[..., bool | None], left: Number, right: Number, negate: bool = False) -> Number:
    said = None if left is None or right is None else test(left, right)
    if said is None:
        return 0, 1
    return (int(said != negate),) * 2


def _test(test: Callable[..., bool | None], swap: bool = False, negate: bool = False) -> Callable[..., Number]:
    def apply(left: tuple[int, int], right: tuple[int, int]) -> Number:
        return _compared(test, right, left, negate) if swap else _compared(test, left, right, negate)

    return apply


def _exactly(function: Callable[..., int]) -> Callable[..., Number]:
    def apply(*operands: tuple[int, int]) -> Number:
        if any(low != high for low, high in operands):
            return None
        value = function(*(low for low, _ in operands))
        return value, value

    return apply


def _both(left: tuple[int, int], right: tuple[int, int]) -> Number:
    """``and``: exact for truth values."""
    if max(left[1], right[1]) <= 1 and min(left[0], right[0]) >= 0:
        return min(left[0], right[0]), min(left[1], right[1])
    return _exactly(lambda a, b: a & b)(left, right)


def _either(left: tuple[int, int], right: tuple[int, int]) -> Number:
    if max(left[1], right[1]) <= 1 and min(left[0], right[0]) >= 0:
        return max(left[0], right[0]), max(left[1], right[1])
    return _exactly(lambda a, b: a | b)(left, right)


def _absolute(number: tuple[int, int]) -> Number:
    low, high = number
    if low >= 0:
        return number
    return (-high, -low) if high <= 0 else (0, max(-low, high))


def _sign(number: tuple[int, int]) -> Number:
    low, high = ((value > 0) - (value < 0) for value in number)
    return low, high


_SAME = ("convert_element_type", "multiple_of", "stop_gradient", "copy", "squeeze", "reshape", "broadcast_in_dim")
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    **dict.fromkeys(_SAME, lambda number, *_: number),
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _around(lambda a, b: a * b),
    "neg": lambda a: (-a[1], -a[0]),
    "abs": _absolute,
    "sign": _sign,
    "div": _divided,
    "rem": _remainder,
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "clamp": lambda low, x, high: (min(max(x[0], low[0]), high[0]), min(max(x[1], low[1]), high[1])),
    "eq": _test(_equal),
    "ne": _test(_equal, negate=True),
    "lt": _test(_less),
    "gt": _test(_less, swap=True),
    "le": _test(_less_equal),
    "ge": _test(_less_equal, swap=True),
    "and": _both,
    "or": _either,
    "xor": _exactly(lambda a, b: a ^ b),
    "shift_left": _exactly(lambda a, b: a << b),
    "shift_right_arithmetic": _exactly(lambda a, b: a >> b),
}


def negated(eqn: Any, number: Number) -> Number:
    """``not``: of a truth value, or bit by bit."""
    if eqn.outvars[0].aval.dtype.kind == "b":
        return None if number is None else (1 - number[1], 1 - number[0])
    return None if number is None else (~number[1], ~number[0])


def read(numbers: Mapping[Any, Number], atom: Any) -> Number:
    """The number of an equation's operand, or of a part of an index."""
    if isinstance(atom, int | np.integer):
        return int(atom), int(atom)
    if jaxapi.is_literal(atom):
        return literal(atom.val)
    try:
        return numbers.get(atom)
    except TypeError:
        return None
