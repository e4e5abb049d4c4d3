"""The equations of a jaxpr that make integer scalars, as terms."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from typedpallas.starts.terms import OPERATIONS, Term, Terms

_SAME = ("stop_gradient", "copy", "reduce_precision", "squeeze", "reshape", "broadcast_in_dim", "reshard")


def is_number(aval: Any) -> bool:
    """Whether a type is that of an integer or a truth value, and not of an array."""
    if getattr(aval, "shape", None) != () or hasattr(aval, "inner_aval"):
        return False
    return getattr(getattr(aval, "dtype", None), "kind", "") in ("i", "u", "b")


def literal(value: Any) -> int | None:
    """The integer that a constant in a jaxpr is; none if it is none."""
    if np.ndim(value) or np.asarray(value).dtype.kind not in "iub":
        return None
    return int(value)


def result(terms: Terms, eqn: Any, operands: Sequence[Term]) -> Term | None:
    """What an equation with one integer result makes; none where that is not followed."""
    if not all(is_number(atom.aval) for atom in eqn.invars):
        return None
    if eqn.primitive.name in _SAME:
        return operands[0]
    return elementwise(terms, eqn, operands)


def elementwise(terms: Terms, eqn: Any, operands: Sequence[Term]) -> Term | None:
    """What an equation makes of one element of each of its operands, at one place in all of them."""
    name = eqn.primitive.name
    if name in OPERATIONS and len(operands) in (1, 2):
        return terms.apply(name, *operands)
    return _SPECIAL[name](terms, eqn, operands) if name in _SPECIAL else None


def _select(terms: Terms, eqn: Any, operands: Sequence[Term]) -> Term | None:
    return terms.apply("select", *operands) if len(operands) == 3 else None


def _converted(terms: Terms, eqn: Any, operands: Sequence[Term]) -> Term | None:
    """Between integers of one width nothing happens; another one hides from a compiler where the value comes from."""
    before, after = np.dtype(eqn.invars[0].aval.dtype), np.dtype(eqn.outvars[0].aval.dtype)
    if after.kind == "b" and before.kind != "b":
        return terms.apply("ne", operands[0], terms.const(0))
    if before.itemsize == after.itemsize:
        return operands[0]
    return terms.opaque(operands[0]) if after.itemsize > before.itemsize else None


def _promised(terms: Terms, eqn: Any, operands: Sequence[Term]) -> Term | None:
    found = operands[0]
    for of in eqn.params["values"]:
        found = terms.multiple(found, int(of))
    return found


def _not(terms: Terms, eqn: Any, operands: Sequence[Term]) -> Term | None:
    if np.dtype(eqn.outvars[0].aval.dtype).kind == "b":
        return terms.apply("eq", operands[0], terms.const(0))
    return terms.apply("sub", terms.const(-1), operands[0])


_SPECIAL: Mapping[str, Callable[[Terms, Any, Sequence[Term]], Term | None]] = {
    "select_n": _select,
    "convert_element_type": _converted,
    "multiple_of": _promised,
    "not": _not,
    "neg": lambda terms, eqn, operands: terms.apply("sub", terms.const(0), operands[0]),
    "clamp": lambda terms, eqn, operands: terms.apply(
        "min", terms.apply("max", operands[1], operands[0]), operands[2]
    ),
}
