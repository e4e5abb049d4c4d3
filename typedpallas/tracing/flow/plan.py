"""A jaxpr made ready to be walked many times: which equations matter, and what makes each variable."""

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow import numbers
from typedpallas.tracing.flow.calm import CONTROL, STATEFUL, Calm, Finder
from typedpallas.tracing.flow.regions import Views
from typedpallas.tracing.flow.state import Bound

type Kind = Literal["control", "memory", "number", "value"]

_LONGEST = 12
"""Longer periods are not followed."""
_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_MOST_COMPARED = 4
_COUNTS = frozenset({"dma_start", "dma_wait", "semaphore_signal", "semaphore_wait"})


@dataclass(frozen=True)
class Step:
    """One equation. ``refs``: whether it, or anything inside it, reaches memory."""

    eqn: Any
    kind: Kind
    refs: bool
    counts: bool
    """Whether a result is a whole scalar."""
    read: tuple[Any, ...]
    """The variables among its operands."""
    known: tuple[Bound | None, ...] = ()
    """What a number's operands stand for where they are constants; none for variables."""
    calm: Calm | None = None
    """What it does with refs where it need not be walked while all memory is meant; none if it must be."""


@dataclass(frozen=True)
class Plan:
    """A jaxpr's equations, the variables that anything reads, and the equation that makes each variable."""

    jaxpr: Any
    steps: tuple[Step, ...]
    used: frozenset[Any]
    made: Mapping[Any, Any]


class Plans:
    """Plans by jaxpr, each made once."""

    def __init__(self) -> None:
        self._known: dict[int, Plan] = {}
        self._refs: dict[int, bool] = {}
        self._counts: dict[int, bool] = {}
        self._computes: dict[int, bool] = {}
        self._periods: dict[int, int] = {}
        self._compared: dict[int, tuple[int, ...]] = {}
        self._operands: dict[int, Any] = {}
        self._calms = Finder()
        self.views: dict[tuple[int, tuple[int, ...]], Views] = {}
        """By the identity of the views and the buffer's shape."""
        self.results: dict[Hashable, tuple[list[Bound], int]] = {}
        """What calls that only compute make, and how many equations that took."""

    def of(self, jaxpr: Any) -> Plan:
        """The plan of a jaxpr, open or closed."""
        opened = jaxapi.open_jaxpr(jaxpr)
        found = self._known.get(id(opened))
        if found is None or found.jaxpr is not opened:
            found = self._known[id(opened)] = self._made(opened)
        return found

    def _made(self, jaxpr: Any) -> Plan:
        atoms = [*jaxpr.outvars, *(atom for eqn in jaxpr.eqns for atom in eqn.invars)]
        used = frozenset(atom for atom in atoms if not jaxapi.is_literal(atom))
        steps = tuple(self._step(eqn, used) for eqn in jaxpr.eqns)
        return Plan(jaxpr, steps, used, {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars})

    def _step(self, eqn: Any, used: frozenset[Any]) -> Step:
        kind, refs, counts = self._kind(eqn)
        constants = eqn.invars if kind == "number" else ()
        known = [Bound(numbers.literal(atom.val)) if jaxapi.is_literal(atom) else None for atom in constants]
        return Step(eqn, kind, refs, counts, _variables(eqn), tuple(known), self._calm(eqn, used))

    def _kind(self, eqn: Any) -> tuple[Kind, bool, bool]:
        name = eqn.primitive.name
        counts = any(numbers.is_number(var) for var in eqn.outvars)
        refs = any(jaxapi.is_ref(atom.aval) for atom in (*eqn.invars, *eqn.outvars)) or name == "run_scoped"
        if name in CONTROL:
            return "control", refs or any(self.reaches(inner) for inner in jaxapi.inner_jaxprs(eqn)), counts
        if refs or name in STATEFUL:
            return "memory", True, counts
        return ("number" if counts and len(eqn.outvars) == 1 else "value"), False, counts

    def _calm(self, eqn: Any, used: frozenset[Any]) -> Calm | None:
        if eqn.primitive.name not in CONTROL or any(numbers.is_number(var) and var in used for var in eqn.outvars):
            return None
        return self._calms.of(eqn)

    def reaches(self, jaxpr: Any) -> bool:
        """Whether anything in a jaxpr reaches memory."""
        key = id(jaxpr)
        if key not in self._refs:
            self._refs[key] = any(self._kind(eqn)[1] for eqn in jaxpr.eqns)
        return self._refs[key]

    def computes(self, jaxpr: Any) -> bool:
        """Whether a jaxpr computes its results from its inputs alone, and does nothing else."""
        opened = jaxapi.open_jaxpr(jaxpr)
        if id(opened) not in self._computes:
            self._computes[id(opened)] = not self.reaches(opened) and not any(_asks(eqn) for eqn in opened.eqns)
        return self._computes[id(opened)]

    def counts(self, eqn: Any) -> bool:
        """Whether anything in the jaxprs of an equation counts on semaphores."""
        key = id(eqn)
        if key not in self._counts:
            inside = [part for inner in jaxapi.inner_jaxprs(eqn) for part in jaxapi.open_jaxpr(inner).eqns]
            self._counts[key] = any(part.primitive.name in _COUNTS or self.counts(part) for part in inside)
        return self._counts[key]

    def operands(self, eqn: Any) -> Any:
        """The operands of an equation as its tree of them has them, made once; those of a plain access without it."""
        found = self._operands.get(id(eqn))
        if found is None:
            found = self._operands[id(eqn)] = _unflattened(eqn)
        return found

    def period(self, jaxpr: Any) -> int:
        """After how many turns what a body does may come again: the common multiple of what it divides by.

        1 where it takes no remainders, or only large ones.
        """
        opened = jaxapi.open_jaxpr(jaxpr)
        if id(opened) not in self._periods:
            found = math.lcm(*(by for by in _divisors(opened) if by <= _LONGEST))
            self._periods[id(opened)] = found if found <= _LONGEST else 1
        return self._periods[id(opened)]

    def compared(self, jaxpr: Any) -> tuple[int, ...]:
        """The first few constants, beside 0, that a body compares whole scalars with."""
        opened = jaxapi.open_jaxpr(jaxpr)
        if id(opened) not in self._compared:
            self._compared[id(opened)] = tuple(sorted(set(_constants(opened)) - {0}))[:_MOST_COMPARED]
        return self._compared[id(opened)]


def _asks(eqn: Any) -> bool:
    """Whether an equation, or one inside it, asks for the place in the grid."""
    inside = (part for inner in jaxapi.inner_jaxprs(eqn) for part in inner.eqns)
    return eqn.primitive.name in ("program_id", "num_programs") or any(map(_asks, inside))


def _variables(eqn: Any) -> tuple[Any, ...]:
    return tuple(atom for atom in eqn.invars if not jaxapi.is_literal(atom))


def _unflattened(eqn: Any) -> Any:
    if "args_tree" in eqn.params:
        return eqn.params["args_tree"].unflatten(eqn.invars)
    plain = {"get": 1, "swap": 2, "addupdate": 2}.get(eqn.primitive.name, 0)
    return eqn.params["tree"].unflatten(eqn.invars[plain:])


def _constants(jaxpr: Any) -> Iterator[int]:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _COMPARISONS and numbers.is_number(eqn.outvars[0]):
            for atom in eqn.invars:
                value = numbers.exact(numbers.literal(atom.val)) if jaxapi.is_literal(atom) else None
                if value is not None:
                    yield value
        for inner in jaxapi.inner_jaxprs(eqn):
            yield from _constants(jaxapi.open_jaxpr(inner))


def _divisors(jaxpr: Any) -> Iterator[int]:
    """The constants that remainders are taken by, in a jaxpr and in those inside it."""
    for eqn in jaxpr.eqns:
        inner = [jaxapi.open_jaxpr(part) for part in jaxapi.inner_jaxprs(eqn)]
        names = {eqn.primitive.name, *(part.primitive.name for opened in inner for part in opened.eqns)}
        for value in (atom.val for atom in eqn.invars if jaxapi.is_literal(atom)):
            by = numbers.exact(numbers.literal(value))
            if by is not None and by > 0 and "rem" in names:
                yield by
            if by is not None and by > 0 and eqn.primitive.name == "and" and by & (by + 1) == 0:
                yield by + 1
        for opened in inner:
            yield from _divisors(opened)
