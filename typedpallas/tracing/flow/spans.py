"""Arithmetic on spans: the least and the most that each element of an array of whole numbers may be.

Functions of single elements, by the name of the primitive. Division truncates, as in `jax.lax`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

type Array = np.ndarray[Any, Any]
type Span = tuple[Array, Array] | None


def _corners(function: Callable[[Array, Array], Array]) -> Callable[..., Span]:
    def apply(left: tuple[Array, Array], right: tuple[Array, Array]) -> Span:
        found = [function(a, b) for a in left for b in right]
        return np.minimum.reduce(np.broadcast_arrays(*found)), np.maximum.reduce(np.broadcast_arrays(*found))

    return apply


def _compared(sure: Callable[[Any, Any], Array], never: Callable[[Any, Any], Array]) -> Callable[..., Span]:
    def apply(left: tuple[Array, Array], right: tuple[Array, Array]) -> Span:
        return sure(left, right).astype(np.int64), (~never(left, right)).astype(np.int64)

    return apply


def _equal(a: tuple[Array, Array], b: tuple[Array, Array]) -> Array:
    return np.asarray((a[0] == a[1]) & (b[0] == b[1]) & (a[0] == b[0]))


def _apart(a: tuple[Array, Array], b: tuple[Array, Array]) -> Array:
    return (a[1] < b[0]) | (b[1] < a[0])


def _less(a: tuple[Array, Array], b: tuple[Array, Array]) -> Array:
    return np.asarray(a[1] < b[0])


def _less_equal(a: tuple[Array, Array], b: tuple[Array, Array]) -> Array:
    return np.asarray(a[1] <= b[0])


def _swapped(test: Callable[[Any, Any], Array]) -> Callable[[Any, Any], Array]:
    return lambda a, b: test(b, a)


def _bitwise(function: Callable[..., Array]) -> Callable[..., Span]:
    """Exact for truth values, and for known numbers."""

    def apply(left: tuple[Array, Array], right: tuple[Array, Array]) -> Span:
        truths = all(part.min(initial=0) >= 0 and part.max(initial=0) <= 1 for part in (*left, *right))
        if truths or (known(left) and known(right)):
            return function(left[0], right[0]), function(left[1], right[1])
        return None

    return apply


def _exclusive(left: tuple[Array, Array], right: tuple[Array, Array]) -> Span:
    if not known(left) or not known(right):
        return None
    return (left[0] ^ right[0],) * 2


def known(span: tuple[Array, Array]) -> bool:
    """Whether every element is one number."""
    return span[0] is span[1] or bool((span[0] == span[1]).all())


def _truncated(left: Array, right: Array) -> Array:
    return np.asarray(np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(right)))


def _divided(left: tuple[Array, Array], right: tuple[Array, Array]) -> Span:
    if not known(right) or (right[0] <= 0).any() or left[0].dtype.kind != "i" or right[0].dtype.kind != "i":
        return None
    return _truncated(left[0], right[0]), _truncated(left[1], right[0])


def _remainder(left: tuple[Array, Array], right: tuple[Array, Array]) -> Span:
    quotient = _divided(left, right)
    if quotient is None:
        return None
    by = right[0]
    same = (quotient[0] == quotient[1]) & (np.sign(left[0]) * np.sign(left[1]) >= 0)
    low = np.where(same, left[0] - quotient[0] * by, np.where(left[0] < 0, 1 - by, 0))
    return low, np.where(same, left[1] - quotient[1] * by, np.where(left[1] > 0, by - 1, 0))


def _shifted(function: Callable[..., Array]) -> Callable[..., Span]:
    def apply(left: tuple[Array, Array], right: tuple[Array, Array]) -> Span:
        if not known(right) or (right[0] < 0).any() or (right[0] > 31).any():
            return None
        return function(left[0], right[0]), function(left[1], right[0])

    return apply


def _sign(part: tuple[Array, Array]) -> Span:
    return np.sign(part[0]), np.sign(part[1])


def _absolute(part: tuple[Array, Array]) -> Span:
    low, high = part
    return np.where(low >= 0, low, np.where(high <= 0, -high, 0)), np.maximum(-low, high)


def _clamped(low: tuple[Array, Array], part: tuple[Array, Array], high: tuple[Array, Array]) -> Span:
    return tuple(np.minimum(np.maximum(part[k], low[k]), high[k]) for k in (0, 1))  # type: ignore[return-value]


ONE_BY_ONE: Mapping[str, Callable[..., Span]] = {
    **dict.fromkeys(("multiple_of", "stop_gradient", "copy", "optimization_barrier"), lambda part: part),
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _corners(np.multiply),
    "neg": lambda a: (-a[1], -a[0]),
    "abs": _absolute,
    "sign": _sign,
    "div": _divided,
    "rem": _remainder,
    "max": lambda a, b: (np.maximum(a[0], b[0]), np.maximum(a[1], b[1])),
    "min": lambda a, b: (np.minimum(a[0], b[0]), np.minimum(a[1], b[1])),
    "clamp": _clamped,
    "eq": _compared(_equal, _apart),
    "ne": _compared(_apart, _equal),
    "lt": _compared(_less, _swapped(_less_equal)),
    "le": _compared(_less_equal, _swapped(_less)),
    "gt": _compared(_swapped(_less), _less_equal),
    "ge": _compared(_swapped(_less_equal), _less),
    "and": _bitwise(np.bitwise_and),
    "or": _bitwise(np.bitwise_or),
    "xor": _exclusive,
    "shift_left": _shifted(np.left_shift),
    "shift_right_arithmetic": _shifted(np.right_shift),
}
