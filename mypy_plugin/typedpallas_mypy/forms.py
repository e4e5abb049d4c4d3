"""Whole numbers of a kernel's body as the source writes them, and as terms, once the kernel's dims are numbers.

A form names what is not fixed: program ids, turns of loops, loaded numbers. Its sizes may hold dims; `Case` has a
number for each of these and makes the terms that a trace of the kernel with those sizes makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from typedpallas.dims import Quotient, Size
from typedpallas.records import record
from typedpallas.starts.terms import OPERATIONS, Leaf, Term, Terms, leaves

FREE: Final = "#"
"""The first letter of names in sizes that stand for a number which the source does not tell."""


@record(frozen=True)
class Form:
    """One number. ``op`` is an operation of `OPERATIONS`, one of `_MADE`, or what it is by itself."""

    op: str
    args: tuple[Form, ...] = ()
    size: Size | None = None
    """Of ``size``: the number. Of ``multiple``: what is promised to divide the argument."""
    name: str = ""
    """Of ``program`` and ``turn``: how messages call it. Of ``data``: which load it is."""

    @staticmethod
    def of(size: Size | int) -> Form:
        """A number that is fixed once the kernel's dims are."""
        return Form("size", size=Size.of(size))


UNKNOWN: Final = Form("unknown")
"""A number of which nothing is known."""


def parts(form: Form) -> Iterator[Form]:
    """A form and everything that it is made of."""
    yield form
    for part in form.args:
        yield from parts(part)


def sizes(form: Form) -> Iterator[Size]:
    """Every size in a form."""
    return (part.size for part in parts(form) if part.size is not None)


def is_simple(size: Size) -> bool:
    """Whether a size is a number, or a product: then a few values of each name show all that it can be."""
    if size.const is not None:
        return True
    if len(size.terms) != 1:
        return False
    quotients = [atom for atom in size.terms[0][0] if isinstance(atom, Quotient)]
    return all(is_simple(atom.numerator) and is_simple(atom.denominator) for atom in quotients)


class NeverRuns(Exception):
    """With these sizes a loop around has no turns."""


class Case:
    """A number for every name in the sizes of some forms, and the terms that the forms are then."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = values
        self.terms = Terms()
        self._leaves: dict[str, Term] = {}
        self._data: dict[str, Term] = {}

    def number(self, size: Size) -> int:
        """A size in numbers.

        Raises:
            NeverRuns: it divides by zero.
        """
        try:
            return size.evaluate(self.values)
        except ZeroDivisionError as error:
            raise NeverRuns from error

    def term(self, form: Form) -> Term:
        """A form as a term.

        Raises:
            NeverRuns: it counts the turns of a loop that has none.
        """
        if form.op == "size":
            assert form.size is not None
            return self.terms.const(self.number(form.size))
        if form.op == "program":
            return self._leaf(form.name, None)
        if form.op == "turn":
            return self._turn(form)
        if form.op == "data":
            return self._data.setdefault(form.name, self.terms.data())
        if form.op == "multiple":
            assert form.size is not None
            return self.terms.multiple(self.term(form.args[0]), self.number(form.size))
        args = [self.term(part) for part in form.args]
        if form.op in _MADE:
            return _MADE[form.op](self.terms, *args)
        return self.terms.apply(form.op, *args) if form.op in OPERATIONS else self.terms.unknown()

    def _leaf(self, name: str, high: int | None) -> Term:
        """A number that runs from 0 to ``high``, or to an end that is not known."""
        if name not in self._leaves:
            self._leaves[name] = self.terms.program(Leaf(name, 0, high, known=True))
        return self._leaves[name]

    def _turn(self, form: Form) -> Term:
        """What `lax.fori_loop` counts, as it is lowered.

        A loop of one turn is none. Where the bounds move, the compiler sees only that it is a number; where it is not
        known whether they do, nothing is known.
        """
        lower, upper = (self.term(part) for part in form.args)
        if lower.const is None or upper.const is None:
            sees = all(leaf.followed for leaf in leaves(lower, upper))
            counted = self.terms.apply("add", lower, self._leaf(form.name, None))
            return self.terms.opaque(counted) if sees else self.terms.unknown()
        turns = upper.const - lower.const
        if turns <= 0:
            raise NeverRuns
        return lower if turns == 1 else self.terms.apply("add", lower, self._leaf(form.name, turns - 1))


def _floor(terms: Terms, a: Term, b: Term) -> Term:
    """``a // b`` as JAX makes it of a division that truncates."""
    quotient = terms.apply("div", a, b)
    unlike = terms.apply("ne", terms.apply("sign", a), terms.apply("sign", b))
    inexact = terms.apply("ne", terms.apply("rem", a, b), terms.const(0))
    below = terms.apply("sub", quotient, terms.const(1))
    return terms.apply("select", terms.apply("and", unlike, inexact), quotient, below)


def _mod(terms: Terms, a: Term, b: Term) -> Term:
    """``a % b`` as JAX makes it of a remainder with the sign of ``a``."""
    zero = terms.const(0)
    by = terms.apply("select", terms.apply("eq", b, zero), b, terms.const(1))
    rest = terms.apply("rem", a, by)
    unlike = terms.apply("ne", terms.apply("lt", rest, zero), terms.apply("lt", by, zero))
    moved = terms.apply("and", unlike, terms.apply("ne", rest, zero))
    return terms.apply("select", moved, rest, terms.apply("add", rest, by))


def _cdiv(terms: Terms, a: Term, b: Term) -> Term:
    """`pl.cdiv`."""
    return terms.apply("div", terms.apply("add", a, terms.apply("sub", b, terms.const(1))), b)


def _clip(terms: Terms, a: Term, low: Term, high: Term) -> Term:
    """`jnp.clip`."""
    return terms.apply("min", high, terms.apply("max", low, a))


def _where(terms: Terms, which: Term, chosen: Term, otherwise: Term) -> Term:
    return terms.apply("select", which, otherwise, chosen)


_MADE: Final[Mapping[str, Callable[..., Term]]] = {
    "floor": _floor,
    "mod": _mod,
    "cdiv": _cdiv,
    "clip": _clip,
    "where": _where,
}
