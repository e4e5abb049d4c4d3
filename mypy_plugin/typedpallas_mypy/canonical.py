"""Sizes simplified by what divides their names: under ``M: Multiple[L[8]]``, ``M - M//2`` is ``M//2``."""

from __future__ import annotations

import math

from typedpallas.dims import Atom, Facts, Quotient, Size


def expanded(size: Size, facts: Facts) -> Size:
    """The size with every name counted in its multiples: what divides it then divides exactly."""
    steps = {name: facts.multiple(name) for name in size.names}
    return size.substitute({name: Size.of(name) * step for name, step in steps.items() if step > 1})


def in_steps(facts: Facts) -> Facts:
    """The facts about names that count multiples, as `expanded` uses them."""
    lows = {name: -(-low // facts.multiple(name)) for name, low in facts.lows.items()}
    highs = {name: high // facts.multiple(name) for name, high in facts.highs.items()}
    return Facts(lows=lows, highs=highs)


def over(size: Size, by: int) -> Size:
    """``size / by`` where that is known to be exact, the fraction reduced as far as the coefficients allow."""
    common = math.gcd(by, *(count for _, count in size.terms))
    exact = size.exactly_over(common)
    return (size if exact is None else exact) // (by if exact is None else by // common)


def simplified(size: Size, facts: Facts) -> Size:
    """The same size with every quotient that the facts make exact worked out."""
    if not any(isinstance(atom, Quotient) for monomial, _ in size.terms for atom in monomial):
        return size
    return _restored(expanded(size, facts), facts)


def _restored(size: Size, facts: Facts) -> Size:
    """An expanded size in the names' own elements again."""
    total = Size.of(0)
    for monomial, count in size.terms:
        term, by = Size.of(count), 1
        for atom in monomial:
            term = term * _restored_atom(atom, facts)
            by *= facts.multiple(atom) if isinstance(atom, str) else 1
        total = total + over(term, by)
    return total


def _restored_atom(atom: Atom, facts: Facts) -> Size:
    """A bare name stays as it is: the monomial that it is in is still to be divided."""
    if isinstance(atom, str):
        return Size.of(atom)
    numerator, denominator = _restored(atom.numerator, facts), _restored(atom.denominator, facts)
    return numerator.cdiv(denominator) if atom.up else numerator // denominator
