"""The jaxprs around a kernel as scopes: what a variable stands for, followed through calls, loops and maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from typedpallas.tracing import jaxapi
from typedpallas.tracing.walk import KernelCall

_CALLS = frozenset(
    {
        *("jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint", "remat_opt"),
        *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_vmap_call", "custom_lin"),
    }
)
"""Equations whose jaxpr's inputs and results are their own, one for one."""

type Part = Literal["whole", "some"]
"""Whether an inner variable is all of an outer array, or some of its elements."""


@dataclass(frozen=True, eq=False)
class Scope:
    """One jaxpr as it runs: ``known`` holds contents, ``bound`` what inputs are outside, as far as that is clear."""

    jaxpr: Any
    known: Mapping[Any, Any]
    bound: Mapping[Any, "Outer"] = field(default_factory=dict)

    @cached_property
    def made(self) -> dict[Any, tuple[Any, int]]:
        """Each variable that an equation makes, with the equation and the result's number."""
        return {var: (eqn, number) for eqn in self.jaxpr.eqns for number, var in enumerate(eqn.outvars)}

    @cached_property
    def inside(self) -> "dict[int, Scope | None]":
        """The scopes of the calls in it that were entered, by the `id` of their equations."""
        return {}


@dataclass(frozen=True)
class Outer:
    """An operand in the scope around."""

    scope: Scope
    atom: Any
    part: Part = "whole"


def innermost(kernel: KernelCall) -> Scope | None:
    """The scope of the kernel's own equation; none where its surroundings are not known."""
    scope: Scope | None = None
    around: Any = None
    for jaxpr, eqn in kernel.path:
        bound = {} if scope is None else _bound(scope, around, jaxpr)
        scope, around = Scope(jaxpr, kernel.known, bound), eqn
    return scope


def called(scope: Scope, eqn: Any) -> Scope | None:
    """The scope inside an equation that is a call; none for any other."""
    if eqn.primitive.name not in _CALLS:
        return None
    if id(eqn) not in scope.inside:
        scope.inside[id(eqn)] = _called(scope, eqn)
    return scope.inside[id(eqn)]


def _called(scope: Scope, eqn: Any) -> Scope | None:
    inner = next(iter(jaxapi.inner_jaxprs(eqn)), None)
    if inner is None or len(inner.outvars) != len(eqn.outvars) or len(inner.invars) != len(eqn.invars):
        return None
    known = {**scope.known, **jaxapi.constants_inside(eqn)}
    return Scope(inner, known, _all(scope, inner.invars, eqn.invars))


def branches(scope: Scope, eqn: Any) -> list[Scope]:
    """The scopes of the branches of a ``cond``; none for any other equation."""
    if eqn.primitive.name != "cond":
        return []
    known = {**scope.known, **jaxapi.constants_inside(eqn)}
    inners = list(jaxapi.inner_jaxprs(eqn))
    return [Scope(inner, known, _all(scope, inner.invars, eqn.invars[1:])) for inner in inners]


def _all(scope: Scope, variables: Sequence[Any], atoms: Sequence[Any], part: Part = "whole") -> dict[Any, Outer]:
    if len(variables) != len(atoms):
        return {}
    return {var: Outer(scope, atom, part) for var, atom in zip(variables, atoms, strict=True)}


def _bound(scope: Scope, eqn: Any, inner: Any) -> dict[Any, Outer]:
    """What the inputs of a jaxpr inside an equation are outside of it."""
    name = eqn.primitive.name
    if name in _CALLS:
        return _all(scope, inner.invars, eqn.invars)
    if name == "cond":
        return _all(scope, inner.invars, eqn.invars[1:])
    if name == "scan":
        fixed, carried = jaxapi.scan_counts(eqn)
        found = _all(scope, inner.invars[:fixed], eqn.invars[:fixed])
        rest = fixed + carried
        return found | _all(scope, inner.invars[rest:], eqn.invars[rest:], "some")
    if name == "while" and inner is jaxapi.open_jaxpr(eqn.params["body_jaxpr"]):
        skipped, fixed = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        return _all(scope, inner.invars[:fixed], eqn.invars[skipped : skipped + fixed])
    if name == "shard_map" and len(inner.invars) == len(eqn.invars):
        specs = eqn.params.get("in_specs") or ()
        return {
            var: Outer(scope, atom, "whole" if _replicated(spec) else "some")
            for var, atom, spec in zip(inner.invars, eqn.invars, specs, strict=False)
        }
    return {}


def _replicated(spec: Any) -> bool:
    """Whether a partition of an array leaves it whole on every device."""
    try:
        return all(part is None for part in spec)
    except TypeError:
        return False
