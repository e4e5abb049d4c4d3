"""Grid axes along which a kernel does the same work again."""

from collections.abc import Iterator
from typing import Any

from typedpallas.events import IdleAxis
from typedpallas.tracing import jaxapi
from typedpallas.tracing.grid import maps as grid_maps
from typedpallas.tracing.located import Located
from typedpallas.tracing.uses import wraps as uses_wraps
from typedpallas.tracing.walk import KernelCall, Operand

_LOADS = ("get", "masked_load")
_STORES = ("swap", "masked_swap")
_CONTROL = ("cond", "scan", "while", "jit", "pjit", "closed_call")
_HARMLESS = ("custom_jvp_call", "custom_vjp_call")
_STATE = ("prng", "callback", "print", "semaphore", "dma", "barrier")
"""Parts of the names of operations that have a state of their own, or are seen from outside."""


def events(kernel: KernelCall) -> Iterator[Located]:
    """One event for each axis that no block and no value depends on, at the call's line.

    Silent where the kernel keeps anything from step to step: then a step may go on from the one before.
    """
    mapping = kernel.eqn.params.get("grid_mapping")
    if mapping is None or None in kernel.grid or any(operand.role == "scratch" for operand in kernel.operands):
        return
    hidden = tuple(mapping.vmapped_dims)
    seen = [axis for axis in range(len(kernel.grid)) if axis not in hidden]
    extents = [extent or 0 for extent in kernel.grid]
    if kernel.aliases or not any(extents[axis] > 1 for axis in seen) or 0 in extents:
        return
    refs = dict(zip(kernel.jaxpr.invars, kernel.operands, strict=False))
    read: set[int] = set()
    if not _keeps_nothing(kernel.jaxpr, refs, read):
        return
    moved = _moved(kernel, extents)
    for number, axis in enumerate(seen):
        if extents[axis] > 1 and number not in read and moved is not None and axis not in moved:
            event = IdleAxis(kernel=kernel.name, axis=number, extent=extents[axis])
            yield Located(event, kernel.place, kernel.name)


def _moved(kernel: KernelCall, extents: list[int]) -> set[int] | None:
    """The axes that any block depends on; none if that is not known."""
    moved: set[int] = set()
    for operand in kernel.operands:
        if operand.mapping is None:
            continue
        jaxpr = operand.mapping.index_map_jaxpr
        results = jaxapi.open_jaxpr(jaxpr)
        if any(eqn.primitive.name in _LOADS for eqn in results.eqns):
            return None
        moved |= set().union(*grid_maps.axes_of_each(jaxpr, len(extents), extents))
    return moved


def _keeps_nothing(jaxpr: Any, refs: dict[Any, Operand], read: set[int]) -> bool:
    """Whether nothing that a step stores is ever loaded; the axes whose number is read go to ``read``."""
    used = {atom for eqn in jaxpr.eqns for atom in eqn.invars if not jaxapi.is_literal(atom)} | set(
        atom for atom in jaxpr.outvars if not jaxapi.is_literal(atom)
    )
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in ("program_id", "num_programs"):
            read.add(eqn.params["axis"])
        if any(part in name for part in _STATE):
            return False
        touched = [atom for atom in eqn.invars if jaxapi.is_ref(atom.aval)]
        roles = {refs[atom].role if atom in refs else "unknown" for atom in touched}
        if name in _LOADS:
            if not roles <= {"in", "prefetch"}:
                return False
        elif name in _STORES:
            if any(var in used for var in eqn.outvars):
                return False
        elif touched and name not in _CONTROL:
            return False
        for inner in jaxapi.inner_jaxprs(eqn) if name in _CONTROL + _HARMLESS else ():
            if not _keeps_nothing(inner, uses_wraps.entered(eqn, inner, refs), read):
                return False
    return True
