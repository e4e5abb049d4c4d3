"""Whether an index map stays within its array whatever its tables hold, by bounds of their entries."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from typedpallas.starts.terms import Leaf, Term, Terms
from typedpallas.tracing import jaxapi
from typedpallas.tracing.grid import values as grid_values
from typedpallas.tracing.grid.maps import axes_of_each
from typedpallas.tracing.ranges import guarded as guarded_bounds
from typedpallas.tracing.ranges import numbers as ranges_numbers

type Ends = tuple[int, int]

_MOST_POINTS = 20_000
_WORD = 4
_CALLS = ("pjit", "jit", "closed_call", "custom_jvp_call")


@dataclass(frozen=True)
class Within:
    """What to prove: the results of ``jaxpr`` over ``grid`` lie from 0 to below ``blocks``.

    A grid axis whose length is not known is none; ``tables`` has the bounds of each table's entries.
    """

    jaxpr: Any
    grid: tuple[int | None, ...]
    blocks: tuple[int, ...]
    tables: Sequence[Ends | None]


def proved(claim: Within) -> bool:
    """Whether every result is in range at every grid point."""
    opened = jaxapi.open_jaxpr(claim.jaxpr)
    terms = Terms()
    ids = [terms.program(_axis(axis, extent)) for axis, extent in enumerate(claim.grid)]
    env: dict[Any, Any] = dict(zip(opened.invars, [*ids, *claim.tables], strict=False))
    results = _walk(opened, env, terms)
    if results is None:
        return False
    lengths = [1 << 30 if extent is None else extent for extent in claim.grid]
    moves = axes_of_each(claim.jaxpr, len(claim.grid), lengths)
    for term, blocks, axes in zip(results, claim.blocks, moves, strict=True):
        used = sorted(axes)
        if not _inside(term, blocks, {}) and not _inside(term, blocks, _everywhere(used, claim.grid, ids)):
            return False
    return True


def _axis(axis: int, extent: int | None) -> Leaf:
    return Leaf(f"grid id {axis}", 0, None if extent is None else extent - 1)


def _everywhere(used: Sequence[int], grid: Sequence[int | None], ids: Sequence[Term]) -> Mapping[Term, Any]:
    """The ids of the axes used, at each of their points; nothing where these are too many."""
    known = [axis for axis in used if grid[axis] is not None]
    extents = [int(grid[axis] or 0) for axis in known]
    if math.prod(extents) > _MOST_POINTS:
        return {}
    at, _ = grid_values.points(extents)
    return {ids[axis]: (at[:, column], at[:, column]) for column, axis in enumerate(known)}


def _inside(term: Term, blocks: int, ids: Mapping[Term, Any]) -> bool:
    low, high = guarded_bounds.Bounds(ids, {}).of(term)
    return bool(np.all(low >= 0) and np.all(high < blocks))


def _walk(jaxpr: Any, env: dict[Any, Any], terms: Terms) -> list[Term] | None:
    """The results of a jaxpr of words; none where it computes with anything else."""

    def read(atom: Any) -> Any:
        if not jaxapi.is_literal(atom):
            return env.get(atom)
        value = ranges_numbers.literal(atom.val)
        return None if value is None else terms.const(value)

    for eqn in jaxpr.eqns:
        if not all(_is_word(var.aval) for var in eqn.outvars):
            return None
        name, operands = eqn.primitive.name, [read(atom) for atom in eqn.invars]
        if name == "get":
            ends = env.get(eqn.invars[0])
            results = [_entry(ends, eqn.outvars[0].aval)]
        elif name in _CALLS:
            inner = next(iter(jaxapi.inner_jaxprs(eqn)))
            results = _walk(inner, dict(zip(inner.invars, operands, strict=False)), terms) or []
        else:
            known = all(isinstance(operand, Term) for operand in operands)
            made = ranges_numbers.result(terms, eqn, operands) if known else None
            results = [terms.unknown() if made is None else made]
        if len(results) != len(eqn.outvars):
            return None
        env.update(zip(eqn.outvars, results, strict=True))
    found = [read(atom) for atom in jaxpr.outvars]
    return found if all(isinstance(term, Term) for term in found) else None


def _entry(ends: Ends | None, aval: Any) -> Term:
    if ends is None:
        limits = np.iinfo(aval.dtype) if np.dtype(aval.dtype).kind == "i" else None
        ends = (guarded_bounds.LOWEST, guarded_bounds.HIGHEST) if limits is None else (limits.min, limits.max)
    return Term("leaf", leaf=Leaf("an entry", int(ends[0]), int(ends[1])))


def _is_word(aval: Any) -> bool:
    """Whether a type is a scalar that 32 bits with a sign hold."""
    if not ranges_numbers.is_number(aval):
        return False
    dtype = np.dtype(aval.dtype)
    return bool(dtype.kind == "b" or dtype == np.int32 or dtype.itemsize < _WORD)
