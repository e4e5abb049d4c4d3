"""What Mosaic GPU's lowering proves of an index: less than is true of it, and not what Mosaic TPU proves.

Asked of the lowering (JAX 0.11.2, h100 and b200) with one copy to a tiled buffer for each form of expression. It
folds constants, then looks at the operations that make the value, without knowing any bounds: one factor of a
product, both sides of sums, differences, remainders, minima, maxima and selects, one side of a bitwise and. A promise
(`pl.multiple_of`) counts; shifts, quotients and what a loop carries do not.
"""

from collections.abc import Collection

from typedpallas.events import Known
from typedpallas.starts.terms import Leaf, Term, leaves
from typedpallas.tracing.ranges.points import Path, find

_BOTH = ("add", "sub", "rem", "min", "max")
_SEEN = (*_BOTH, "const", "leaf", "multiple", "mul", "div", "shift_left", "select", "opaque")
"""Operations that nothing folds away before the lowering looks, other than on constants."""


def proves(divisor: int, term: Term, path: Path, indices: Collection[Leaf] = ()) -> Known:
    """Whether the lowering can tell that ``divisor`` divides the term.

    A proof holds on every path, so that a value that is no multiple, whatever the conditions, cannot be proved one.
    Where a loop is written out each copy has a constant, if it is not cut away for its conditions.

    ``indices``: what the lowering never folds, even where it has one value only.
    """
    if _divides(divisor, term, {}):
        return "yes"
    used, operations = list(leaves(term)), _operations(term)
    if any(leaf.unrolled or not leaf.followed for leaf in used):
        written = all(leaf.unrolled for leaf in used) and "multiple" not in operations
        return "no" if written and find(term, path, lambda values: values % divisor != 0) else "unknown"
    if operations.issubset(_SEEN) and all(leaf in indices or _stays(leaf) for leaf in used):
        return "no"
    if "multiple" in operations:
        return "unknown"
    return "no" if find(term, Path(loops=path.loops), lambda values: values % divisor != 0) else "unknown"


def _stays(leaf: Leaf) -> bool:
    """Whether a value is surely none that the lowering folds: not the one turn of a loop, nor what a loop keeps."""
    several = leaf.low is None or leaf.low != leaf.high
    return several and (leaf.known or leaf.label == "data")


def _operations(term: Term) -> set[str]:
    found: set[str] = set()
    seen: set[Term] = set()
    todo = [term]
    while todo:
        last = todo.pop()
        if last in seen:
            continue
        seen.add(last)
        found.add(last.op)
        todo.extend(last.args[1:] if last.op == "select" else last.args)
    return found


def _divides(divisor: int, term: Term, known: dict[Term, bool]) -> bool:
    if term not in known:
        known[term] = divisor == 1 or _by_structure(divisor, term, known)
    return known[term]


def _by_structure(divisor: int, term: Term, known: dict[Term, bool]) -> bool:
    if term.op == "const":
        return term.value % divisor == 0
    if term.op == "multiple":
        return term.value % divisor == 0 or _divides(divisor, term.args[0], known)
    if term.op == "mul":
        return any(_divides(divisor, arg, known) for arg in term.args)
    if term.op == "and":
        return divisor.bit_count() == 1 and any(_divides(divisor, arg, known) for arg in term.args)
    if term.op in _BOTH:
        return all(_divides(divisor, arg, known) for arg in term.args)
    return term.op == "select" and all(_divides(divisor, arg, known) for arg in term.args[1:])
