"""Which values of a kernel come from memory or from its place in the grid; a compiler may work out the others."""

from collections.abc import Iterable, Sequence
from typing import Any

from typedpallas.tracing import jaxapi

_SOURCES = ("program_id", "load", "masked_load")


def depends(eqn: Any, data: Iterable[Any]) -> bool:
    """Whether an equation's results depend on data. ``data``: the variables that do; refs count as data."""
    return eqn.primitive.name in _SOURCES or any(is_data(atom, data) for atom in eqn.invars)


def is_data(atom: Any, data: Iterable[Any]) -> bool:
    """Whether an operand is a ref, or one of these variables."""
    return not jaxapi.is_literal(atom) and (jaxapi.is_ref(atom.aval) or atom in data)


def inner(variables: Sequence[Any], operands: Sequence[Any], data: Iterable[Any]) -> set[Any]:
    """The inputs of an inner jaxpr that stand for data; an operand that is none is not known."""
    return {var for var, atom in zip(variables, operands, strict=False) if atom is not None and is_data(atom, data)}
