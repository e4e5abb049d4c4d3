"""`tp.debug`: run a function step by step on this machine's CPU, and look into its kernels' tables before they run.

What no trace can know, an index map that reads its block from a table of data, is known here: the tables are at hand.
Kernels run in interpret mode.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax

from typedpallas import rules
from typedpallas.diagnostics import Diagnostic, PlacementError, diagnose
from typedpallas.events import Context, IndexMap, Slice
from typedpallas.tracing import jaxapi, walk
from typedpallas.tracing.grid import index_maps

_CALLS = frozenset(
    {
        *("jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint", "remat_opt"),
        *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_vmap_call"),
    }
)


def debug(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn``, run operation by operation, with every table that an index map reads looked into first.

    For small operands, to find the entry that leads a kernel astray: kernels run in interpret mode, and what is
    inside of `jax.jit` runs outside of it. Kernels within `jax.shard_map` are run as they are.

    Raises (the function that is returned):
        PlacementError: an index map leaves its array, or reads past its table, at the grid point that is named.
    """

    @functools.wraps(fn)
    def checked(*arrays: Any) -> Any:
        traced, shapes = jax.make_jaxpr(fn, return_shape=True)(*arrays)
        results = _run(jaxapi.open_jaxpr(traced), list(traced.consts), jax.tree.leaves(arrays))
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return checked


def _run(jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *arguments), strict=True))

    def read(atom: Any) -> Any:
        return atom.val if jaxapi.is_literal(atom) else env[atom]

    for eqn in jaxpr.eqns:
        env.update(zip(eqn.outvars, _step(jaxpr, eqn, [read(atom) for atom in eqn.invars]), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _step(jaxpr: Any, eqn: Any, operands: list[Any]) -> Sequence[Any]:
    name = eqn.primitive.name
    if name in _CALLS:
        return _enter(next(_inside(eqn)), operands)
    if name == "cond":
        branches = list(_inside(eqn))
        return _enter(branches[min(max(int(operands[0]), 0), len(branches) - 1)], operands[1:])
    if name == "scan":
        return _scan(eqn, operands)
    if name == "while":
        return _while(eqn, operands)
    if name == "pallas_call":
        _look(jaxpr, eqn, operands)
        return jaxapi.bound(eqn, operands, interpret=eqn.params["interpret"] or True)
    return jaxapi.bound(eqn, operands)


def _inside(eqn: Any) -> Iterator[Any]:
    """The jaxprs among an equation's parameters with what they carry along."""
    for value in eqn.params.values():
        yield from (
            item for item in (value if isinstance(value, tuple | list) else (value,)) if jaxapi.is_jaxpr(item)
        )


def _enter(closed: Any, operands: Sequence[Any]) -> list[Any]:
    return _run(jaxapi.open_jaxpr(closed), getattr(closed, "consts", ()), operands)


def _scan(eqn: Any, operands: list[Any]) -> list[Any]:
    fixed, carried = jaxapi.scan_counts(eqn)
    constants, state, slices = operands[:fixed], operands[fixed : fixed + carried], operands[fixed + carried :]
    stacked: list[list[Any]] = []
    length = range(eqn.params["length"])
    for step in reversed(length) if eqn.params["reverse"] else length:
        results = _enter(next(_inside(eqn)), [*constants, *state, *(array[step] for array in slices)])
        state = results[:carried]
        stacked.append(results[carried:])
    if not stacked:
        return list(jaxapi.bound(eqn, operands))
    if eqn.params["reverse"]:
        stacked.reverse()
    return [*state, *(jax.numpy.stack(column) for column in zip(*stacked, strict=True))]


def _while(eqn: Any, operands: list[Any]) -> list[Any]:
    asking, doing = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    state = operands[asking + doing :]
    while bool(_enter(eqn.params["cond_jaxpr"], [*operands[:asking], *state])[0]):
        state = _enter(eqn.params["body_jaxpr"], [*operands[asking : asking + doing], *state])
    return state


def _look(jaxpr: Any, eqn: Any, operands: Sequence[Any]) -> None:
    """Judge the index maps of one kernel by what its operands hold.

    Raises:
        PlacementError: a map leaves its array, or a table.
    """
    mapping = eqn.params["grid_mapping"]
    first = mapping.num_dynamic_grid_bounds + mapping.num_index_operands
    known = {
        atom: value for atom, value in zip(eqn.invars[:first], operands, strict=False) if not jaxapi.is_literal(atom)
    }
    kernel = replace(walk.call_of(eqn), path=((jaxpr, eqn),), known=known)
    refuted = list(_refuted(kernel))
    if refuted:
        raise PlacementError(refuted)


def _refuted(kernel: walk.KernelCall) -> Iterator[Diagnostic]:
    context = Context(backend=kernel.backend)
    for located in index_maps.events(kernel, context):
        if isinstance(located.event, IndexMap | Slice):
            for finding in rules.judge(located.event, context):
                if finding.verdict == "refuted":
                    yield diagnose(finding, level="trace", target=None, place=located.place, kernel=located.kernel)
