"""Symbolic sizes: integer polynomials over named dims in one canonical form, and what is known of the names.

A `Size` counts array elements (or grid steps). ``2*BM`` and ``BM + BM`` are the same `Size`; quotients that do
not divide exactly stay as opaque atoms, so that nothing is ever rounded silently.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import cast

from typedpallas.records import record


@record(frozen=True)
class Quotient:
    """``numerator // denominator``, rounded down, or up if ``up``; kept where the division is not exact."""

    numerator: Size
    denominator: Size
    up: bool = False

    def __str__(self) -> str:
        if self.up:
            return f"cdiv({self.numerator}, {self.denominator})"
        return f"{_wrapped(self.numerator)}//{_wrapped(self.denominator)}"


type Atom = str | Quotient
type Monomial = tuple[Atom, ...]


def _wrapped(size: Size) -> str:
    text = str(size)
    return f"({text})" if any(mark in text for mark in "+-*/") else text


@record(frozen=True)
class Size:
    """A sum of integer multiples of products of atoms; ``terms`` is sorted and has no zero coefficient."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(value: SizeLike) -> Size:
        """A number, a dim's name or a `Size` as a `Size`."""
        return value if isinstance(value, Size) else _of(value)

    @functools.cached_property
    def const(self) -> int | None:
        """The number that this is, or none if it depends on a name."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Every dim's name that occurs, inside quotients too."""
        return frozenset(name for monomial, _ in self.terms for atom in monomial for name in _names(atom))

    def __add__(self, other: SizeLike) -> Size:
        added = Size.of(other)
        if not self.terms or not added.terms:
            return added if not self.terms else self
        return _collect([*self.terms, *added.terms])

    def __neg__(self) -> Size:
        return Size(tuple((monomial, -count) for monomial, count in self.terms))

    def __sub__(self, other: SizeLike) -> Size:
        return self + -Size.of(other)

    def __mul__(self, other: SizeLike) -> Size:
        by = Size.of(other)
        if by.const is not None or self.const is not None:
            return self._times(by.const) if by.const is not None else by._times(self.const or 0)
        return _collect(
            [(tuple(sorted(left + right, key=str)), a * b) for left, a in self.terms for right, b in by.terms]
        )

    def _times(self, number: int) -> Size:
        if number == 1:
            return self
        return Size(tuple((monomial, count * number) for monomial, count in self.terms) if number else ())

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: SizeLike) -> Size:
        return Size.of(other) - self

    def __floordiv__(self, other: SizeLike) -> Size:
        return self._divide(Size.of(other), up=False)

    def cdiv(self, other: SizeLike) -> Size:
        """Division rounded up."""
        return self._divide(Size.of(other), up=True)

    def _divide(self, by: Size, *, up: bool) -> Size:
        if by.const == 0:
            raise ZeroDivisionError(f"{self} divided by zero")
        exact = self.exactly_over(by)
        if exact is not None:
            return exact
        if self.const is not None and by.const is not None:
            return Size.of(-(-self.const // by.const) if up else self.const // by.const)
        return Size((((Quotient(self, by, up),), 1),))

    def exactly_over(self, by: SizeLike) -> Size | None:
        """``self / by`` if that is exact whatever the names stand for, else none."""
        divisor = Size.of(by)
        if len(divisor.terms) != 1:
            return Size.of(1) if self == divisor else None
        ((factors, count),) = divisor.terms
        quotients = []
        for monomial, coefficient in self.terms:
            rest = _without(monomial, factors)
            if rest is None or coefficient % count:
                return None
            quotients.append((rest, coefficient // count))
        return _collect(quotients)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The number under an assignment of every name.

        Raises:
            KeyError: a name has no value.
        """
        return sum(count * math.prod(_value(atom, values) for atom in monomial) for monomial, count in self.terms)

    def substitute(self, values: Mapping[str, SizeLike]) -> Size:
        """The size with the given names replaced; others stay."""
        if self.names.isdisjoint(values):
            return self
        total = Size.of(0)
        for monomial, count in self.terms:
            term = Size.of(1)
            for atom in monomial:
                term = term * _substituted(atom, values)
            total = total + term._times(count)
        return total

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        text = ""
        for monomial, count in sorted(self.terms, key=lambda term: (not term[0], str(term[0]))):
            factors = "*".join(_factor(atom) for atom in monomial)
            number = str(abs(count)) if abs(count) != 1 or not monomial else ""
            term = "*".join(part for part in (number, factors) if part)
            text += (" - " if count < 0 else " + ") + term if text else ("-" if count < 0 else "") + term
        return text

    __repr__ = __str__


type SizeLike = Size | int | str


@functools.lru_cache(maxsize=4096)
def _of(value: int | str) -> Size:
    """The one `Size` of a name or of a small number, so that what follows from it is worked out once."""
    if isinstance(value, str):
        return Size((((value,), 1),))
    return Size((((), int(value)),) if value else ())


def _names(atom: Atom) -> Iterator[str]:
    if isinstance(atom, str):
        yield atom
    else:
        yield from atom.numerator.names | atom.denominator.names


def _factor(atom: Atom) -> str:
    return f"({atom})" if isinstance(atom, Quotient) and not atom.up else str(atom)


def _value(atom: Atom, values: Mapping[str, int]) -> int:
    if isinstance(atom, str):
        return values[atom]
    numerator, denominator = atom.numerator.evaluate(values), atom.denominator.evaluate(values)
    return -(-numerator // denominator) if atom.up else numerator // denominator


def _substituted(atom: Atom, values: Mapping[str, SizeLike]) -> Size:
    if isinstance(atom, str):
        return Size.of(values.get(atom, atom))
    numerator, denominator = atom.numerator.substitute(values), atom.denominator.substitute(values)
    return numerator.cdiv(denominator) if atom.up else numerator // denominator


def _without(monomial: Monomial, factors: Monomial) -> Monomial | None:
    rest = list(monomial)
    for factor in factors:
        if factor not in rest:
            return None
        rest.remove(factor)
    return tuple(rest)


def _collect(terms: list[tuple[Monomial, int]]) -> Size:
    counts: dict[Monomial, int] = {}
    for monomial, count in terms:
        counts[monomial] = counts.get(monomial, 0) + count
    kept = [(monomial, count) for monomial, count in counts.items() if count]
    return Size(tuple(sorted(kept, key=lambda term: (len(term[0]), str(term[0])))))


@record(frozen=True)
class Facts:
    """What is known of the names in sizes.

    ``multiples``: a name to the largest number known to divide it. ``lows`` and ``highs``: inclusive bounds;
    a name without a low is a dim, so at least 1.
    """

    multiples: Mapping[str, int] = field(default_factory=dict)
    lows: Mapping[str, int] = field(default_factory=dict)
    highs: Mapping[str, int] = field(default_factory=dict)

    def multiple(self, name: str) -> int:
        """The largest number known to divide what ``name`` stands for."""
        return self.multiples.get(name, 1)

    def bounds(self, name: str) -> tuple[int, int | None]:
        """The inclusive range of what ``name`` stands for."""
        step = self.multiple(name)
        low = self.lows.get(name, 1)
        return -(-low // step) * step, self.highs.get(name)

    def values(self, name: str, count: int) -> Iterator[int]:
        """At most ``count`` of the smallest values that ``name`` may have."""
        low, high = self.bounds(name)
        for i in range(count):
            value = low + i * self.multiple(name)
            if high is not None and value > high:
                return
            yield value


def known_divisor(size: Size, facts: Facts) -> int:
    """The largest number known to divide ``size`` for all values of its names; 0 if ``size`` is zero."""
    return math.gcd(*(abs(count) * _monomial_divisor(monomial, facts) for monomial, count in size.terms))


def _monomial_divisor(monomial: Monomial, facts: Facts) -> int:
    return math.prod(
        facts.multiple(atom) if isinstance(atom, str) else _quotient_divisor(atom, facts) for atom in monomial
    )


def _quotient_divisor(atom: Quotient, facts: Facts) -> int:
    by = atom.denominator.const
    inner = known_divisor(atom.numerator, facts)
    return inner // by if by and inner % by == 0 else 1


def span(size: Size, facts: Facts) -> tuple[int | None, int | None]:
    """Inclusive bounds of ``size`` by interval arithmetic; none where unbounded."""
    low: int | None = 0
    high: int | None = 0
    for monomial, count in size.terms:
        a, b = _monomial_span(monomial, facts)
        ends = (a, b) if count > 0 else (b, a)
        low = None if low is None or ends[0] is None else low + count * ends[0]
        high = None if high is None or ends[1] is None else high + count * ends[1]
    return low, high


def _monomial_span(monomial: Monomial, facts: Facts) -> tuple[int | None, int | None]:
    low, high = 1, cast("int | None", 1)
    for atom in monomial:
        a, b = facts.bounds(atom) if isinstance(atom, str) else _quotient_span(atom, facts)
        if a is None or a < 0 or low < 0:
            return None, None
        low = low * a
        high = None if high is None or b is None else high * b
    return low, high


def _quotient_span(atom: Quotient, facts: Facts) -> tuple[int | None, int | None]:
    low, high = span(atom.numerator, facts)
    by = atom.denominator.const
    if by is None or by < 0:
        return (0 if low is not None and low >= 0 else None), None
    pad = by - 1 if atom.up else 0
    return (None if low is None else (low + pad) // by), (None if high is None else (high + pad) // by)
