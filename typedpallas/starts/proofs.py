"""What Mosaic TPU's own analysis proves of an index, which is less than what is true of it.

Asked of libtpu with one kernel for each form of expression, and with random ones; it looks at the operations that
make the value, without knowing any bounds. A promise (`pl.multiple_of`) counts; bit operations, maxima and
absolute values do not, nor does what a loop carries or a branch returns.
"""

import math

from typedpallas.events import Known
from typedpallas.starts.terms import Term, leaves

_FUEL = 127
"""How deep it looks; two operands share what is left."""


def proves(divisor: int, term: Term) -> Known:
    """Whether the compiler can tell that ``divisor`` divides the term; unknown where its source is not seen here."""
    if _divides(divisor, term, _FUEL):
        return "yes"
    return "no" if all(leaf.followed and not leaf.unrolled for leaf in leaves(term)) else "unknown"


def _divides(divisor: int, term: Term, fuel: int) -> bool:
    rest = _explicit(divisor, term, fuel)
    return rest == 0 if rest is not None else _by_structure(divisor, term, fuel)


def _rest(divisor: int, term: Term, fuel: int) -> int | None:
    rest = _explicit(divisor, term, fuel)
    if rest is None and _by_structure(divisor, term, fuel):
        return 0
    return rest


def _explicit(divisor: int, term: Term, fuel: int) -> int | None:
    """The remainder of a constant, or of a sum of terms with known remainders."""
    if fuel <= 0:
        return None
    if divisor == 1:
        return 0
    if term.op == "const":
        return term.value % divisor
    if term.op == "add":
        left = _rest(divisor, term.args[0], fuel // 2)
        right = None if left is None else _rest(divisor, term.args[1], (fuel + 1) // 2)
        return None if left is None or right is None else (left + right) % divisor
    return None


def _by_structure(divisor: int, term: Term, fuel: int) -> bool:
    if fuel <= 0:
        return False
    if divisor == 1:
        return True
    if term.op == "multiple":
        return term.value % divisor == 0 or _divides(divisor, term.args[0], fuel - 1)
    if term.op == "joined":
        return _divides(divisor, term.args[0], fuel)
    if term.op == "mul":
        return _product(divisor, term, fuel)
    if term.op == "div":
        by = term.args[1].const
        return by is not None and _divides(divisor * by, term.args[0], fuel - 1)
    if term.op in ("sub", "rem", "min"):
        return _both(divisor, term.args[0], term.args[1], fuel)
    if term.op == "select":
        return _both(divisor, term.args[2], term.args[1], fuel)
    return False


def _both(divisor: int, left: Term, right: Term, fuel: int) -> bool:
    return _divides(divisor, left, fuel // 2) and _divides(divisor, right, (fuel + 1) // 2)


def _product(divisor: int, term: Term, fuel: int) -> bool:
    for factor, other in (term.args[::-1], term.args):
        shared = 1 if factor.const is None else math.gcd(factor.const, divisor)
        if shared > 1:
            return _divides(divisor // shared, other, fuel - 1)
    right, left = term.args[1], term.args[0]
    return _divides(divisor, right, fuel // 2) or _divides(divisor, left, (fuel + 1) // 2)
