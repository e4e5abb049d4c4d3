"""Bounds and congruences of terms: every value lies between two numbers and leaves one remainder."""

import math
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass

from typedpallas.starts.terms import Term, folded, truncated


@dataclass(frozen=True)
class Range:
    """``low <= value <= high`` (none: unbounded) and ``value = rest`` modulo ``step``; a step of 0: just ``rest``."""

    low: int | None = None
    high: int | None = None
    step: int = 1
    rest: int = 0

    @staticmethod
    def of(value: int) -> "Range":
        """One number."""
        return Range(value, value, 0, value)

    @property
    def multiple(self) -> int:
        """The largest number known to divide every value; 0 if every value is 0."""
        return math.gcd(self.step, self.rest)


ANY = Range()
TRUTH = Range(0, 1)

type Bounds = MutableMapping[Term, Range]
"""What is known of each term."""


def bounds(term: Term, known: Bounds) -> Range:
    """The range of a term; ``known`` is filled on the way."""
    return folded(term, known, _of)


def _of(term: Term, args: list[Range]) -> Range:
    if term.op == "const":
        return Range.of(term.value)
    if term.leaf is not None:
        return _made(term.leaf.low, term.leaf.high, term.leaf.step, term.leaf.rest)
    if term.op == "multiple":
        return _promised(args[0], term.value)
    if term.op in ("opaque", "joined"):
        return args[0]
    return _RULES[term.op](*args) if term.op in _RULES else ANY


def _promised(value: Range, of: int) -> Range:
    if of <= 1 or (value.step and value.step % of == 0) or (not value.step and value.rest % of == 0):
        return value
    return Range(value.low, value.high, of, 0)


def _made(low: int | None, high: int | None, step: int, rest: int) -> Range:
    if low is not None and low == high:
        return Range.of(low)
    return Range(low, high, step, rest % step if step else rest)


def join(left: Range, right: Range) -> Range:
    """What holds for both."""
    low = None if left.low is None or right.low is None else min(left.low, right.low)
    high = None if left.high is None or right.high is None else max(left.high, right.high)
    step = math.gcd(left.step, right.step, left.rest - right.rest)
    return _made(low, high, step, left.rest)


def widened(before: Range, after: Range) -> Range:
    """The join of both, with the bounds that still move given up."""
    both = join(before, after)
    low = both.low if both.low == before.low else None
    high = both.high if both.high == before.high else None
    return _made(low, high, both.step, both.rest)


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _minus(value: Range) -> Range:
    low = None if value.high is None else -value.high
    high = None if value.low is None else -value.low
    return _made(low, high, value.step, -value.rest)


def _add(left: Range, right: Range) -> Range:
    return _made(
        _sum(left.low, right.low),
        _sum(left.high, right.high),
        math.gcd(left.step, right.step),
        left.rest + right.rest,
    )


def _mul(left: Range, right: Range) -> Range:
    step = math.gcd(left.step * right.step, left.step * right.rest, right.step * left.rest)
    rest = left.rest * right.rest
    low, high = _product_bounds(left, right)
    return _made(low, high, step, rest)


def _product_bounds(left: Range, right: Range) -> tuple[int | None, int | None]:
    ends = [left.low, left.high, right.low, right.high]
    if all(end is not None for end in ends):
        corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]  # type: ignore[operator]
        return min(corners), max(corners)
    if left.low is not None and right.low is not None and left.low >= 0 and right.low >= 0:
        return left.low * right.low, None
    return None, None


def _div(left: Range, right: Range) -> Range:
    by = right.low
    if by is None or by != right.high or by <= 0:
        return ANY
    low = None if left.low is None else truncated(left.low, by)
    high = None if left.high is None else truncated(left.high, by)
    if left.step % by == 0 and left.rest % by == 0:
        return _made(low, high, left.step // by, left.rest // by)
    return _made(low, high, 1, 0)


def _rem(left: Range, right: Range) -> Range:
    if right.low is None or right.low <= 0:
        return ANY
    step = math.gcd(left.step, right.step, right.rest)
    if right.high is None:
        return _made(0 if _not_negative(left) else None, None, step, left.rest)
    most = right.high - 1
    if _not_negative(left):
        if left.high is not None and left.high < right.low:
            return left
        return _made(0, most if left.high is None else min(most, left.high), step, left.rest)
    return _made(-most, most, step, left.rest)


def _not_negative(value: Range) -> bool:
    return value.low is not None and value.low >= 0


def _min(left: Range, right: Range) -> Range:
    both = join(left, right)
    highs = [end for end in (left.high, right.high) if end is not None]
    return _made(both.low, min(highs, default=None), both.step, both.rest)


def _max(left: Range, right: Range) -> Range:
    return _minus(_min(_minus(left), _minus(right)))


def _abs(value: Range) -> Range:
    if _not_negative(value):
        return value
    both = join(value, _minus(value))
    return _made(0, both.high, both.step, both.rest)


def _and(left: Range, right: Range) -> Range:
    masks = [side.rest for side in (left, right) if side.step == 0]
    lowest = max((mask & -mask for mask in masks if mask), default=1)
    highs = [side.high for side in (left, right) if _not_negative(side) and side.high is not None]
    low = 0 if _not_negative(left) or _not_negative(right) else None
    return _made(low, min(highs, default=None), lowest, 0)


def _or(left: Range, right: Range) -> Range:
    if not (_not_negative(left) and _not_negative(right)):
        return ANY
    if left.high is None or right.high is None:
        return Range(0, None)
    return Range(0, (1 << (left.high | right.high).bit_length()) - 1)


def _shift_left(left: Range, right: Range) -> Range:
    return _mul(left, Range.of(1 << right.rest)) if right.step == 0 and 0 <= right.rest < 32 else ANY


def _shift_right(left: Range, right: Range) -> Range:
    if right.step or not 0 <= right.rest < 32:
        return ANY
    low = None if left.low is None else left.low >> right.rest
    high = None if left.high is None else left.high >> right.rest
    return _made(low, high, 1, 0)


def _before(left: Range, right: Range, *, equal: bool) -> Range:
    """The truth of ``left < right`` (or equal)."""
    slack = 0 if equal else 1
    if left.high is not None and right.low is not None and left.high + slack <= right.low:
        return Range.of(1)
    if left.low is not None and right.high is not None and left.low + slack > right.high:
        return Range.of(0)
    return TRUTH


def _select(which: Range, otherwise: Range, chosen: Range) -> Range:
    if which.low == which.high and which.low is not None:
        return chosen if which.low else otherwise
    return join(otherwise, chosen)


_RULES: Mapping[str, Callable[..., Range]] = {
    "add": _add,
    "sub": lambda left, right: _add(left, _minus(right)),
    "mul": _mul,
    "div": _div,
    "rem": _rem,
    "min": _min,
    "max": _max,
    "abs": _abs,
    "sign": lambda value: Range(0 if _not_negative(value) else -1, 1),
    "eq": lambda left, right: TRUTH,
    "ne": lambda left, right: TRUTH,
    "lt": lambda left, right: _before(left, right, equal=False),
    "le": lambda left, right: _before(left, right, equal=True),
    "gt": lambda left, right: _before(right, left, equal=False),
    "ge": lambda left, right: _before(right, left, equal=True),
    "and": _and,
    "or": _or,
    "xor": _or,
    "shift_left": _shift_left,
    "shift_right_arithmetic": _shift_right,
    "select": _select,
}
