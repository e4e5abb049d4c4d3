"""Sums over steps whose parts are rounded to a narrow type before they are added in a wide one."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from typedpallas.events import NarrowedSum
from typedpallas.tracing import body, jaxapi
from typedpallas.tracing.grid import maps as grid_maps
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall, Operand

_NARROW = ("bfloat16", "float16")
_WIDE = "float32"
_PARTS = ("dot_general", "reduce_sum")


@dataclass(frozen=True)
class _Scope:
    kernel: KernelCall
    operands: dict[Any, Operand]
    """The kernel's refs, by the variables that stand for them here."""
    rounds: int | None
    """How often the loops around run what is here; none where unknown."""
    carried: dict[Any, Any] | None = None
    """In a loop's body: what each carried variable becomes."""


@dataclass(frozen=True)
class _Facts:
    """One jaxpr: what makes each variable, how often it is used, and which value is stored to which ref."""

    made: dict[Any, Any]
    uses: Counter[Any]
    stored: set[tuple[Any, Any]]


def _facts(jaxpr: Any) -> _Facts:
    made = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
    uses = Counter(atom for eqn in jaxpr.eqns for atom in eqn.invars if not jaxapi.is_literal(atom))
    uses.update(atom for atom in jaxpr.outvars if not jaxapi.is_literal(atom))
    swaps = (eqn.invars[:2] for eqn in jaxpr.eqns if eqn.primitive.name == "swap")
    return _Facts(made, uses, {(ref, value) for ref, value in swaps if not jaxapi.is_literal(value)})


def events(kernel: KernelCall) -> Iterator[Located]:
    """One event for each such sum, at the line of its addition."""
    operands = dict(zip(kernel.jaxpr.invars, kernel.operands, strict=False))
    yield from _walk(kernel.jaxpr, _Scope(kernel, operands, 1))


def _walk(jaxpr: Any, scope: _Scope) -> Iterator[Located]:
    facts = _facts(jaxpr)
    for eqn in jaxpr.eqns:
        event = _sum(eqn, facts, scope)
        if event is not None:
            yield Located(event, jaxapi.place(eqn), scope.kernel.name)
        for inner in jaxapi.inner_jaxprs(eqn):
            yield from _walk(inner, _entered(eqn, inner, scope))


def _entered(eqn: Any, inner: Any, scope: _Scope) -> _Scope:
    name = eqn.primitive.name
    outer = body.outer_operands(eqn, inner)
    operands = {
        var: scope.operands[atom]
        for var, atom in zip(inner.invars, outer, strict=False)
        if atom is not None and not jaxapi.is_literal(atom) and atom in scope.operands
    }
    if name == "scan":
        first, count = jaxapi.scan_counts(eqn)
        carried = dict(zip(inner.invars[first : first + count], inner.outvars[:count], strict=False))
        rounds = None if scope.rounds is None else scope.rounds * eqn.params["length"]
        return replace(scope, operands=operands, rounds=rounds, carried=carried)
    rounds = None if name == "while" else scope.rounds
    return replace(scope, operands=operands, rounds=rounds, carried=None)


def _sum(eqn: Any, facts: _Facts, scope: _Scope) -> NarrowedSum | None:
    if eqn.primitive.name == "addupdate":
        part = _rounded(jaxapi.accessed(eqn)[1], facts)
        kept = jaxapi.accessed(eqn)[0]
        return None if part is None else _event(part, kept, scope)
    if eqn.primitive.name not in ("add", "add_any"):
        return None
    for part, other in (eqn.invars, eqn.invars[::-1]):
        rounded = _rounded(part, facts)
        if rounded is None or jaxapi.is_literal(other):
            continue
        total = eqn.outvars[0]
        if scope.carried is not None and scope.carried.get(other) is total and (scope.rounds or 0) > 1:
            return _event(rounded, None, scope)
        loaded = facts.made.get(other)
        if loaded is not None and loaded.primitive.name == "get":
            kept = loaded.invars[0]
            if (kept, total) in facts.stored:
                return _event(rounded, kept, scope)
    return None


def _rounded(atom: Any, facts: _Facts) -> tuple[str, str] | None:
    """The narrow type, and what made the value, of a float32 value that was rounded and serves nothing else."""
    wide = _conversion(atom, facts, _WIDE)
    narrow = None if wide is None else _conversion(wide, facts, *_NARROW)
    if wide is None or narrow is None or jaxapi.is_literal(narrow) or jaxapi.dtype_name(narrow.aval) != _WIDE:
        return None
    source = facts.made.get(narrow)
    if source is None or source.primitive.name not in _PARTS:
        return None
    return jaxapi.dtype_name(wide.aval) or "", source.primitive.name


def _conversion(atom: Any, facts: _Facts, *kinds: str) -> Any:
    """What is converted to one of these types to give a value that is used once; none if it is not made so."""
    if jaxapi.is_literal(atom) or facts.uses[atom] != 1 or jaxapi.dtype_name(atom.aval) not in kinds:
        return None
    eqn = facts.made.get(atom)
    return eqn.invars[0] if eqn is not None and eqn.primitive.name == "convert_element_type" else None


def _event(part: tuple[str, str], kept: Any, scope: _Scope) -> NarrowedSum | None:
    """The event, where the sum surely has more than one term."""
    terms, where, result = scope.rounds, "a loop's carry", False
    if kept is not None:
        operand = scope.operands.get(kept)
        if operand is None:
            return None
        where, steps = f"`{operand.name}`", shared_steps(operand, scope.kernel)
        result = operand.role == "out"
        terms = None if terms is None or steps is None else terms * steps
    if terms is None or terms < 2:
        return None
    narrow, primitive = part
    return NarrowedSum(
        wide=_WIDE, narrow=narrow, target=where, terms=terms, product=primitive == "dot_general", result=result
    )


def shared_steps(operand: Operand, kernel: KernelCall) -> int | None:
    """How many grid steps share one block of an operand, at most; none if unknown."""
    extents = kernel.grid
    if any(extent is None for extent in extents):
        return None
    moves: set[int] = set()
    if operand.mapping is not None:
        jaxpr, known = operand.mapping.index_map_jaxpr, [extent or 1 for extent in extents]
        if any(eqn.primitive.name == "get" for eqn in jaxapi.open_jaxpr(jaxpr).eqns):
            return None
        moves = set().union(*grid_maps.axes_of_each(jaxpr, len(known), known))
    steps = 1
    for axis, extent in enumerate(extents):
        steps *= 1 if axis in moves else extent or 1
    return steps
