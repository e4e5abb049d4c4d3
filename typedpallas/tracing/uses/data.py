"""Which values of a kernel come from memory or from its place in the grid; a compiler may work out the others."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from typedpallas.tracing import jaxapi

_SOURCES = ("program_id", "load", "masked_load")
_NEUTRAL: dict[str, int | None] = {"add": 0, "sub": 0, "mul": 1, "or": 0, "xor": 0, "max": None, "min": None}
"""The number that leaves the other operand as it is."""


def depends(eqn: Any, data: Iterable[Any]) -> bool:
    """Whether an equation's results depend on data. ``data``: the variables that do; refs count as data."""
    return eqn.primitive.name in _SOURCES or any(is_data(atom, data) for atom in eqn.invars)


def is_data(atom: Any, data: Iterable[Any]) -> bool:
    """Whether an operand is a ref, or one of these variables."""
    return not jaxapi.is_literal(atom) and (jaxapi.is_ref(atom.aval) or atom in data)


def inner(variables: Sequence[Any], operands: Sequence[Any], data: Iterable[Any]) -> set[Any]:
    """The inputs of an inner jaxpr that stand for data; an operand that is none is not known."""
    return {var for var, atom in zip(variables, operands, strict=False) if atom is not None and is_data(atom, data)}


def vanishes(eqn: Any) -> Literal["constant", "operand"] | None:
    """What compilers make of an operation on integers that does nothing: one number, or its operand as it is.

    Asked of libtpu about int8 and int16, which it computes few things with: `0 * x`, `x - x`, `x + 0`, `1 * x`.
    """
    name, operands = eqn.primitive.name, eqn.invars
    if name not in _NEUTRAL or "float" in (jaxapi.dtype_name(eqn.outvars[0].aval) or "float"):
        return None
    if name in ("max", "min", "sub") and operands[0] is operands[1]:
        return "constant" if name == "sub" else "operand"
    for place, atom in enumerate(operands):
        value = jaxapi.literal_value(atom)
        if value == 0 and name == "mul":
            return "constant"
        if value is not None and value == _NEUTRAL[name] and (place == 1 or name != "sub"):
            return "operand"
    return None


def needed(jaxpr: Any) -> list[Any]:
    """The equations that something hangs on, in order: compilers drop the others."""
    used = {atom for atom in jaxpr.outvars if not jaxapi.is_literal(atom)}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if any(var in used for var in eqn.outvars) or (eqn.effects and eqn.primitive.name != "get"):
            used.update(atom for atom in eqn.invars if not jaxapi.is_literal(atom))
            kept.append(eqn)
    return kept[::-1]
