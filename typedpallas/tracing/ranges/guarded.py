"""Bounds of terms at each of some points, where a choice bounds what it is chosen by.

``select(i < n, i, 0)`` is below ``n`` whatever ``i`` is: each case is bounded with what must hold for it to be taken.
A value is a pair of arrays, the lowest and the highest at each point, both included.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from typedpallas.starts.terms import Term

type Ints = np.ndarray[Any, Any]
type Interval = tuple[Ints, Ints]

LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1
"""What a word holds; arithmetic that may leave it may give anything."""
_MOST_CHOICES = 5
"""How many choices within each other are told apart."""
_NEGATED = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}


class Bounds:
    """Bounds at some points, in a case of the choices around."""

    def __init__(self, leaves: Mapping[Term, Interval], narrowed: Mapping[Term, Interval], depth: int = 0) -> None:
        """``leaves`` bounds the terms that are not made of others; ``narrowed`` has what the case adds."""
        self._leaves = leaves
        self._narrowed = dict(narrowed)
        self._depth = depth
        self._found: dict[Term, Interval] = {}

    def of(self, term: Term) -> Interval:
        """The bounds of a term."""
        todo = [term]
        while todo:
            last = todo[-1]
            parts = () if last.op == "select" else last.args
            missing = [arg for arg in parts if arg not in self._found]
            if last not in self._found and missing:
                todo.extend(missing)
                continue
            todo.pop()
            if last not in self._found:
                self._found[last] = self._within(last, self._computed(last))
        return self._found[term]

    def _within(self, term: Term, found: Interval) -> Interval:
        low, high = found
        if term in self._narrowed:
            least, most = self._narrowed[term]
            low, high = np.maximum(low, least), np.minimum(high, most)
        return low, high

    def _computed(self, term: Term) -> Interval:
        if term.op == "const":
            return np.asarray(term.value), np.asarray(term.value)
        if term.leaf is not None:
            return self._leaves.get(term) or _of_leaf(term)
        if term.op == "select":
            return self._select(term)
        parts = [self._found[arg] for arg in term.args]
        if term.op in ("multiple", "opaque", "joined"):
            return parts[0]
        if term.op not in _RULES:
            return np.asarray(LOWEST), np.asarray(HIGHEST)
        low, high = _RULES[term.op](*parts)
        fits = (low >= LOWEST) & (high <= HIGHEST)
        return np.where(fits, low, LOWEST), np.where(fits, high, HIGHEST)

    def _select(self, term: Term) -> Interval:
        which, otherwise, chosen = term.args
        low, high = self.of(which)
        if np.all(low == high) or self._depth >= _MOST_CHOICES:
            first, second = self.of(otherwise), self.of(chosen)
            may, can = high >= 1, low <= 0
        else:
            (first, can), (second, may) = self._case(which, False, otherwise), self._case(which, True, chosen)
            may, can = may & (high >= 1), can & (low <= 0)
        least = np.minimum(np.where(can, first[0], HIGHEST), np.where(may, second[0], HIGHEST))
        most = np.maximum(np.where(can, first[1], LOWEST), np.where(may, second[1], LOWEST))
        return least, most

    def _case(self, which: Term, holds: bool, value: Term) -> tuple[Interval, Ints]:
        """The bounds of a value where a condition holds or not, and at which points that can be."""
        which, holds = _bare(which, holds)
        if which.op == ("or" if holds else "and") and all(_is_truth(arg) for arg in which.args):
            (first, one), (second, other) = (self._case(arg, holds, value) for arg in which.args)
            low = np.minimum(np.where(one, first[0], HIGHEST), np.where(other, second[0], HIGHEST))
            high = np.maximum(np.where(one, first[1], LOWEST), np.where(other, second[1], LOWEST))
            return (low, high), one | other
        case = Bounds(self._leaves, self._narrowed, self._depth + 1)
        possible = case.assume(which, holds)
        found = case.of(value)
        return found, possible & (found[0] <= found[1])

    def assume(self, which: Term, holds: bool) -> Ints:
        """Let a condition hold, or not; at which points that is possible."""
        low, high = self.of(which)
        possible = high >= 1 if holds else low <= 0
        which, holds = _bare(which, holds)
        if which.op == ("and" if holds else "or") and all(_is_truth(arg) for arg in which.args):
            return possible & self.assume(which.args[0], holds) & self.assume(which.args[1], holds)
        if which.op in _NEGATED:
            return possible & self._compare(which.op if holds else _NEGATED[which.op], *which.args)
        return np.asarray(possible)

    def _compare(self, op: str, left: Term, right: Term) -> Ints:
        (a, b), (c, d) = self.of(left), self.of(right)
        if op in ("gt", "ge"):
            return self._compare({"gt": "lt", "ge": "le"}[op], right, left)
        if op in ("lt", "le"):
            gap = int(op == "lt")
            return self._narrow(left, a, d - gap) & self._narrow(right, a + gap, d)
        if op == "eq":
            return self._narrow(left, c, d) & self._narrow(right, a, b)
        return self._apart(left, c, d) & self._apart(right, a, b)

    def _apart(self, term: Term, low: Ints, high: Ints) -> Ints:
        """Let a term differ from another, which only says something where that is one number at an end."""
        least, most = self.of(term)
        one = low == high
        return self._narrow(
            term, np.where(one & (least == low), least + 1, least), np.where(one & (most == low), most - 1, most)
        )

    def _narrow(self, term: Term, low: Ints, high: Ints) -> Ints:
        """Let a term lie within bounds; at which points that is possible."""
        old = self._narrowed.get(term, (LOWEST, HIGHEST))
        low, high = np.maximum(low, old[0]), np.minimum(high, old[1])
        least, most = self.of(term)
        self._narrowed[term] = low, high
        self._found.clear()
        possible = np.asarray(np.maximum(low, least) <= np.minimum(high, most))
        if term.op in ("opaque", "joined", "multiple"):
            return possible & self._narrow(term.args[0], low, high)
        if term.op == "sign":
            floor = np.where(low >= 1, 1, np.where(low >= 0, 0, LOWEST))
            roof = np.where(high <= -1, -1, np.where(high <= 0, 0, HIGHEST))
            return possible & self._narrow(term.args[0], floor, roof)
        return possible


def _bare(which: Term, holds: bool) -> tuple[Term, bool]:
    """The condition within one that only hands it on, or negates it, and whether that one holds."""
    while True:
        if which.op in ("opaque", "joined"):
            which = which.args[0]
        elif which.op in ("eq", "ne") and which.args[1].const == 0 and _is_truth(which.args[0]):
            which, holds = which.args[0], holds == (which.op == "ne")
        else:
            return which, holds


def _is_truth(term: Term) -> bool:
    """Whether a term is sure to be a truth value."""
    if term.op in ("and", "or", "opaque", "joined"):
        return all(_is_truth(arg) for arg in term.args)
    return term.op in _NEGATED


def _of_leaf(term: Term) -> Interval:
    assert term.leaf is not None
    low = LOWEST if term.leaf.low is None else term.leaf.low
    high = HIGHEST if term.leaf.high is None else term.leaf.high
    return np.asarray(low), np.asarray(high)


def _corners(function: Callable[[Ints, Ints], Any]) -> Callable[[Interval, Interval], Interval]:
    """For what is monotonous in each operand: its extremes are among the corners."""

    def bounds(left: Interval, right: Interval) -> Interval:
        corners = [function(a, b) for a in left for b in right]
        return np.minimum.reduce(np.broadcast_arrays(*corners)), np.maximum.reduce(np.broadcast_arrays(*corners))

    return bounds


def _quotient(left: Ints, right: Ints) -> Ints:
    safe = np.where(right == 0, 1, right)
    return np.asarray(np.sign(left) * np.sign(safe) * (np.abs(left) // np.abs(safe)))


def _div(left: Interval, right: Interval) -> Interval:
    low, high = _corners(_quotient)(left, right)
    crosses = (right[0] <= 0) & (right[1] >= 0)
    return np.where(crosses, LOWEST, low), np.where(crosses, HIGHEST, high)


def _rem(left: Interval, right: Interval) -> Interval:
    """The remainder has the sign of the left side, and is smaller than the right one."""
    most = np.maximum(np.abs(right[0]), np.abs(right[1])) - 1
    least = np.minimum(np.abs(right[0]), np.abs(right[1]))
    small = (left[0] > -least) & (left[1] < least)
    low = np.where(small, left[0], np.where(left[0] >= 0, 0, np.maximum(-most, left[0])))
    high = np.where(small, left[1], np.where(left[1] <= 0, 0, np.minimum(most, left[1])))
    exact = (left[0] == left[1]) & (right[0] == right[1]) & (right[0] != 0)
    value = np.fmod(left[0], np.where(right[0] == 0, 1, right[0]))
    crosses = (right[0] <= 0) & (right[1] >= 0)
    low, high = np.where(exact, value, low), np.where(exact, value, high)
    return np.where(crosses, LOWEST, low), np.where(crosses, HIGHEST, high)


def _truth(certain: Ints, possible: Ints) -> Interval:
    return np.asarray(certain).astype(np.int64), np.asarray(possible).astype(np.int64)


def _lt(left: Interval, right: Interval) -> Interval:
    return _truth(left[1] < right[0], left[0] < right[1])


def _le(left: Interval, right: Interval) -> Interval:
    return _truth(left[1] <= right[0], left[0] <= right[1])


def _eq(left: Interval, right: Interval) -> Interval:
    one = (left[0] == left[1]) & (right[0] == right[1]) & (left[0] == right[0])
    return _truth(one, (left[0] <= right[1]) & (right[0] <= left[1]))


def _ne(left: Interval, right: Interval) -> Interval:
    low, high = _eq(left, right)
    return 1 - high, 1 - low


def _and(left: Interval, right: Interval) -> Interval:
    """Of truth values it is the smaller one; a mask that is not negative bounds the result."""
    truths = (left[0] >= 0) & (left[1] <= 1) & (right[0] >= 0) & (right[1] <= 1)
    positive = (left[0] >= 0) | (right[0] >= 0)
    most = np.where(left[0] >= 0, np.where(right[0] >= 0, np.minimum(left[1], right[1]), left[1]), right[1])
    low = np.where(truths, np.minimum(left[0], right[0]), np.where(positive, 0, LOWEST))
    return low, np.where(positive, most, HIGHEST)


def _or(left: Interval, right: Interval) -> Interval:
    truths = (left[0] >= 0) & (left[1] <= 1) & (right[0] >= 0) & (right[1] <= 1)
    low = np.where(truths, np.maximum(left[0], right[0]), LOWEST)
    return low, np.where(truths, np.maximum(left[1], right[1]), HIGHEST)


def _abs(value: Interval) -> Interval:
    low, high = value
    ends = np.abs(low), np.abs(high)
    return np.where((low <= 0) & (high >= 0), 0, np.minimum(*ends)), np.maximum(*ends)


def _shift_right(left: Interval, right: Interval) -> Interval:
    one = (right[0] == right[1]) & (right[0] >= 0) & (right[0] < 32)
    by = np.where(one, right[0], 0)
    return np.where(one, left[0] >> by, LOWEST), np.where(one, left[1] >> by, HIGHEST)


_RULES: Mapping[str, Callable[..., Interval]] = {
    "add": lambda left, right: (left[0] + right[0], left[1] + right[1]),
    "sub": lambda left, right: (left[0] - right[1], left[1] - right[0]),
    "mul": _corners(lambda a, b: np.asarray(a * b)),
    "div": _div,
    "rem": _rem,
    "min": lambda left, right: (np.minimum(left[0], right[0]), np.minimum(left[1], right[1])),
    "max": lambda left, right: (np.maximum(left[0], right[0]), np.maximum(left[1], right[1])),
    "abs": _abs,
    "sign": lambda value: (np.sign(value[0]), np.sign(value[1])),
    "eq": _eq,
    "ne": _ne,
    "lt": _lt,
    "le": _le,
    "gt": lambda left, right: _lt(right, left),
    "ge": lambda left, right: _le(right, left),
    "and": _and,
    "or": _or,
    "shift_right_arithmetic": _shift_right,
}
