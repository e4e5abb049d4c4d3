"""Outputs that a kernel's programs combine into atomically: they share blocks and do not race."""

from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.body import outer_operands

_IN_ANY_ORDER = frozenset({"add", "max", "min", "and", "or", "xor"})


def only_combined(jaxpr: Any, ref: Any) -> bool:
    """Whether nothing but atomic sums and the like ever touches a ref; their order makes no difference."""
    for eqn in jaxpr.eqns:
        if not any(atom is ref for atom in eqn.invars):
            continue
        if eqn.primitive.name == "atomic_rmw":
            if eqn.params["atomic_type"].value not in _IN_ANY_ORDER:
                return False
        elif not _inside(eqn, ref):
            return False
    return True


def _inside(eqn: Any, ref: Any) -> bool:
    inner = list(jaxapi.inner_jaxprs(eqn))
    for jaxpr in inner:
        operands = outer_operands(eqn, jaxpr)
        if None in operands:
            return False
        taken = [var for var, operand in zip(jaxpr.invars, operands, strict=True) if operand is ref]
        if not all(only_combined(jaxpr, var) for var in taken):
            return False
    return bool(inner)
