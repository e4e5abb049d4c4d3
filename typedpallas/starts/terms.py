"""Integer scalars of a kernel's body as terms over what is not fixed: program ids, loop steps, data.

Equal terms are one object, and constants are folded, so that what a compiler folds is a constant here too.
Arithmetic follows `jax.lax`: division truncates, and so does the remainder.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field

type Operation = str
"""A primitive, or ``const``, ``leaf``, ``multiple`` (promised), ``opaque`` (of a loop), ``joined`` (of a branch)."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """A value that is not fixed. ``low`` and ``high`` bound it, both inclusive; none where nothing does."""

    label: str
    """How messages name it: ``program_id(0)``, ``the loop's step``."""
    low: int | None = None
    high: int | None = None
    known: bool = False
    """Whether it takes every value between its bounds, whatever the data."""
    unrolled: bool = False
    """Whether the lowering writes its loop out, so that it is a constant in each copy."""
    followed: bool = True
    """Whether it is seen where the value comes from; if not, a compiler may know more of it."""
    step: int = 1
    """Every value leaves ``rest`` when divided by it; 0: every value is ``rest``."""
    rest: int = 0


@dataclass(frozen=True, eq=False)
class Term:
    """An integer, or a truth value as 0 or 1."""

    op: Operation
    args: "tuple[Term, ...]" = ()
    value: int = 0
    """Of a constant; of ``multiple``, what is promised to divide its argument."""
    leaf: Leaf | None = None

    @property
    def const(self) -> int | None:
        """The value, if it is one number."""
        return self.value if self.op == "const" else None


@dataclass
class Terms:
    """The terms of one kernel."""

    _made: dict[tuple[object, ...], Term] = field(default_factory=dict)

    def const(self, value: int) -> Term:
        """A number."""
        return self._one("const", (), int(value))

    def leaf(self, leaf: Leaf) -> Term:
        """A value that is not fixed; one that has a single value is a number."""
        if leaf.known and leaf.low is not None and leaf.low == leaf.high:
            return self.const(leaf.low)
        return self._made.setdefault(("leaf", id(leaf)), Term("leaf", leaf=leaf))

    def program(self, leaf: Leaf) -> Term:
        """A program id: no number even where its axis has one step, as a compiler does not fold it."""
        return self._made.setdefault(("leaf", id(leaf)), Term("leaf", leaf=leaf))

    def joined(self, term: Term) -> Term:
        """The same value, handed on by a branch, which a compiler may or may not see through."""
        return term if term.op == "const" else self._one("joined", (term,))

    def data(self) -> Term:
        """A value that is loaded."""
        return Term("leaf", leaf=Leaf("data"))

    def unknown(self) -> Term:
        """A value that nothing is known of."""
        return Term("leaf", leaf=Leaf("an unknown value", followed=False))

    def replaced(self, term: Term, leaf: Leaf, value: int) -> Term:
        """The term with a number for one of the values that it depends on."""
        return folded(term, {}, lambda last, args: self._again(last, args, leaf, value))

    def _again(self, term: Term, args: "list[Term]", leaf: Leaf, value: int) -> Term:
        if term.leaf is leaf:
            return self.const(value)
        if term.leaf is not None:
            return self._made.setdefault(("leaf", id(term.leaf)), term)
        if term.op in OPERATIONS:
            return self.apply(term.op, *args)
        if term.op == "opaque":
            return self.opaque(args[0]) if term.args[0].const is None else term
        if term.op == "joined":
            return self.joined(args[0])
        return self.multiple(args[0], term.value) if term.op == "multiple" else term

    def multiple(self, term: Term, of: int) -> Term:
        """The same value, with a promise that ``of`` divides it."""
        return self._one("multiple", (term,), of)

    def opaque(self, term: Term) -> Term:
        """The same value, where a compiler does not see how it comes about."""
        return term if term.op == "const" else self._one("opaque", (term,))

    def hidden(self, term: Term) -> Term:
        """The same value, be it a number, where a compiler does not see how it comes about."""
        return self._one("opaque", (term,))

    def apply(self, op: Operation, *args: Term) -> Term:
        """An operation of `OPERATIONS`, folded as far as it is one on numbers or changes nothing."""
        values = [arg.const for arg in args]
        if all(value is not None for value in values):
            folded = OPERATIONS[op](*values)
            if folded is not None:
                return self.const(int(folded))
        return self._neutral(op, args) or self._one(op, args)

    def _one(self, op: Operation, args: tuple[Term, ...], value: int = 0) -> Term:
        return self._made.setdefault((op, value, *map(id, args)), Term(op, args, value))

    def _neutral(self, op: Operation, args: tuple[Term, ...]) -> Term | None:
        """What an operation that changes nothing, or continues one with a constant, comes to; none for others."""
        first, second = args[0], args[-1]
        if op in ("add", "mul") and first.const is not None:
            return self.apply(op, second, first)
        if op == "add":
            return self._sum(first, second)
        if op == "sub":
            return self._difference(first, second)
        if op == "mul" and second.const == 0:
            return second
        if op in ("mul", "div") and second.const == 1:
            return first
        if op == "mul" and first.op == "mul" and second.const is not None and first.args[1].const is not None:
            return self.apply("mul", first.args[0], self.const(first.args[1].value * second.value))
        if op in ("min", "max") and first is second:
            return first
        return self._chosen(*args) if op == "select" else None

    def _sum(self, left: Term, right: Term) -> Term | None:
        if right.const == 0:
            return left
        if left.op == "sub" and left.args[1] is right:
            return left.args[0]
        if left.op == "add" and right.const is not None and left.args[1].const is not None:
            return self.apply("add", left.args[0], self.const(left.args[1].value + right.value))
        return None

    def _difference(self, left: Term, right: Term) -> Term | None:
        if left is right:
            return self.const(0)
        if right.const == 0:
            return left
        if left.const is not None and right.op == "sub" and right.args[0].const is not None:
            return self.apply("add", right.args[1], self.const(left.value - right.args[0].value))
        if left.op == "add" and right in left.args:
            return left.args[1] if left.args[0] is right else left.args[0]
        if left.op == "add" and right.const is not None and left.args[1].const is not None:
            return self.apply("add", left.args[0], self.const(left.args[1].value - right.value))
        return None

    def _chosen(self, which: Term, otherwise: Term, chosen: Term) -> Term | None:
        if which.const is not None:
            return chosen if which.const else otherwise
        return chosen if chosen is otherwise else None


def folded[T](term: Term, known: MutableMapping[Term, T], of: Callable[[Term, list[T]], T]) -> T:
    """What ``of`` makes of a term and of what its parts came to; ``known`` is filled on the way.

    Deep terms cost one visit for each part, and no recursion.
    """
    todo = [term]
    while todo:
        last = todo[-1]
        missing = [arg for arg in last.args if arg not in known]
        if last not in known and missing:
            todo.extend(missing)
            continue
        todo.pop()
        if last not in known:
            known[last] = of(last, [known[arg] for arg in last.args])
    return known[term]


def leaves(*terms: Term) -> "Iterator[Leaf]":
    """Every value that terms depend on, each once."""
    seen: set[int] = set()
    todo = list(terms)
    while todo:
        term = todo.pop()
        if id(term) in seen:
            continue
        seen.add(id(term))
        if term.leaf is not None:
            yield term.leaf
        todo.extend(term.args)


def truncated(left: int, right: int) -> int | None:
    """The quotient without its fraction; none for a division by zero."""
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int | None:
    quotient = truncated(left, right)
    return None if quotient is None else left - quotient * right


_MOST_BITS = 31


def _shifted(left: int, right: int) -> int | None:
    return left << right if 0 <= right <= _MOST_BITS else None


def _shifted_right(left: int, right: int) -> int | None:
    return left >> right if 0 <= right <= _MOST_BITS else None


OPERATIONS: Mapping[str, Callable[..., int | None]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": truncated,
    "rem": _remainder,
    "min": min,
    "max": max,
    "abs": abs,
    "sign": lambda value: (value > 0) - (value < 0),
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shift_left": _shifted,
    "shift_right_arithmetic": _shifted_right,
    "select": lambda which, otherwise, chosen: chosen if which else otherwise,
}
"""What each operation does to numbers; none where it has no result."""
