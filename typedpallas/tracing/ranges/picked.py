"""Loaded numbers that a kernel may drop: it picks between them and something else."""

from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.body import outer_operands

_CALLS = ("pjit", "jit", "closed_call")


class Users:
    """The equations that use each variable, found once for each jaxpr."""

    def __init__(self) -> None:
        self._known: dict[int, dict[Any, list[Any]]] = {}

    def of(self, jaxpr: Any, var: Any) -> list[Any]:
        """Those of a jaxpr that use a variable."""
        found = self._known.get(id(jaxpr))
        if found is None:
            found = self._known[id(jaxpr)] = {}
            for eqn in jaxpr.eqns:
                for atom in {atom for atom in eqn.invars if not jaxapi.is_literal(atom)}:
                    found.setdefault(atom, []).append(eqn)
        return found.get(var, [])


def picked(jaxpr: Any, var: Any, known: Users) -> bool:
    """Whether a number is only ever one of those that a select picks from, perhaps after some arithmetic.

    Where it was loaded from past its ref's end, the select may keep it out of the results.
    """
    if any(out is var for out in jaxpr.outvars):
        return False
    users = known.of(jaxpr, var)
    return bool(users) and all(_picks(jaxpr, eqn, var, known) for eqn in users)


def _picks(jaxpr: Any, eqn: Any, var: Any, known: Users) -> bool:
    name = eqn.primitive.name
    if name == "select_n":
        return eqn.invars[0] is not var
    if name in _CALLS:
        return all(_picks_inside(eqn, inner, var, known) for inner in jaxapi.inner_jaxprs(eqn))
    moves = eqn.effects or any(jaxapi.is_ref(atom.aval) for atom in eqn.invars)
    if moves or any(True for _ in jaxapi.inner_jaxprs(eqn)):
        return False
    return all(picked(jaxpr, out, known) for out in eqn.outvars)


def _picks_inside(eqn: Any, inner: Any, var: Any, known: Users) -> bool:
    operands = zip(inner.invars, outer_operands(eqn, inner), strict=True)
    return all(picked(inner, own, known) for own, operand in operands if operand is var)
