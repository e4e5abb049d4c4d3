"""Obligations over sizes, decided one of three ways: proved, refuted with numbers that break it, or open.

A name in a size stands for every value that the facts allow, so "proved" means for all of them. "Refuted" means:
for `equal`, there are values that break it (two independent dims need not agree); for `divides` and `at_most`,
no value can satisfy it. Anything else is open, with what would close it.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import field

from typedpallas.dims import Facts, Size, known_divisor, span
from typedpallas.records import record


@record(frozen=True)
class Proved:
    """It holds for every value of every name."""


@record(frozen=True)
class Refuted:
    """It does not hold; ``witness`` assigns the names so that anybody can check the arithmetic."""

    witness: Mapping[str, int] = field(default_factory=dict)


@record(frozen=True)
class Open:
    """Not decided; ``closes`` says what would decide it."""

    closes: str


type Verdict = Proved | Refuted | Open

_TRIES = 400
_VALUES_PER_NAME = 6


def equal(left: Size, right: Size, facts: Facts) -> Verdict:
    """``left == right``."""
    if left == right:
        return Proved()
    difference = left - right
    # A name that is known to be a multiple of 8 counts eights, so that `BM//8*8` becomes `BM`.
    counted = difference.substitute({name: Size.of(name) * facts.multiple(name) for name in difference.names})
    if counted.const == 0:
        return Proved()
    if counted.const is not None:
        return Refuted(_any_values(left, right, facts))
    witness = _counter_example(difference, facts)
    return Open(f"a fact that says whether {left} is {right}") if witness is None else Refuted(witness)


def divides(divisor: int, size: Size, facts: Facts) -> Verdict:
    """``size`` is a multiple of ``divisor``."""
    if known_divisor(size, facts) % divisor == 0:
        return Proved()
    fixed = next((count for monomial, count in size.terms if not monomial), 0)
    step = known_divisor(size - fixed, facts)
    if fixed % math.gcd(step, divisor):
        return Refuted(_any_values(size, Size.of(divisor), facts))
    return Open(f"`Multiple[L[{divisor}]]` for {' and '.join(sorted(size.names))}")


def at_most(size: Size, limit: Size, facts: Facts) -> Verdict:
    """``size <= limit``."""
    low, high = span(limit - size, facts)
    if low is not None and low >= 0:
        return Proved()
    if high is not None and high < 0:
        return Refuted(_any_values(size, limit, facts))
    return Open(f"a bound that shows {size} <= {limit}")


def _any_values(left: Size, right: Size, facts: Facts) -> dict[str, int]:
    return {name: facts.bounds(name)[0] for name in sorted(left.names | right.names)}


def _counter_example(difference: Size, facts: Facts) -> dict[str, int] | None:
    """Values for which the polynomial is not zero, each name different where that is possible."""
    names = sorted(difference.names)
    choices = [list(facts.values(name, _VALUES_PER_NAME)) for name in names]
    candidates = itertools.islice(itertools.product(*choices), _TRIES)
    found = [values for values in candidates if _nonzero(difference, dict(zip(names, values, strict=True)))]
    if not found:
        return None
    best = min(found, key=lambda values: (len(values) - len(set(values)), sum(values)))
    return dict(zip(names, best, strict=True))


def _nonzero(difference: Size, values: dict[str, int]) -> bool:
    try:
        return difference.evaluate(values) != 0
    except ZeroDivisionError:
        return False
