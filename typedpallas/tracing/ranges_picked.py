"""Loaded numbers that a kernel may drop: it picks between them and something else."""

from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.body import outer_operands

_CALLS = ("pjit", "jit", "closed_call")


def picked(jaxpr: Any, var: Any) -> bool:
    """Whether a number is only ever one of those that a select picks from, perhaps after some arithmetic.

    Where it was loaded from past its ref's end, the select may keep it out of the results.
    """
    if any(out is var for out in jaxpr.outvars):
        return False
    users = [eqn for eqn in jaxpr.eqns if any(atom is var for atom in eqn.invars)]
    return bool(users) and all(_picks(jaxpr, eqn, var) for eqn in users)


def _picks(jaxpr: Any, eqn: Any, var: Any) -> bool:
    name = eqn.primitive.name
    if name == "select_n":
        return eqn.invars[0] is not var
    if name in _CALLS:
        return all(_picks_inside(eqn, inner, var) for inner in jaxapi.inner_jaxprs(eqn))
    moves = eqn.effects or any(jaxapi.is_ref(atom.aval) for atom in eqn.invars)
    if moves or any(True for _ in jaxapi.inner_jaxprs(eqn)):
        return False
    return all(picked(jaxpr, out) for out in eqn.outvars)


def _picks_inside(eqn: Any, inner: Any, var: Any) -> bool:
    operands = zip(inner.invars, outer_operands(eqn, inner), strict=True)
    return all(picked(inner, own) for own, operand in operands if operand is var)
