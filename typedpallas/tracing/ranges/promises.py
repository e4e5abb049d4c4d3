"""Starts and sizes of slices that are proved here to be aligned, and that Mosaic TPU refuses unless it is told so."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from typedpallas.chips import Target
from typedpallas.events import Context, Known, Slice, SlicePart
from typedpallas.rules.unaligned_slice import UnalignedSlice
from typedpallas.starts.bounds import Bounds, Range, bounds
from typedpallas.starts.terms import Term
from typedpallas.tracing import jaxapi
from typedpallas.tracing.guard import guarded
from typedpallas.tracing.ranges import slices as ranges_slices
from typedpallas.tracing.ranges.frames import Part
from typedpallas.tracing.walk import KernelCall, kernels

type Promises = Mapping[int, Mapping[Any, int]]
"""What divides operands of equations, by the equation's `id` and the operand's variable."""

_MOST = 1 << 12
"""No tile asks for more than this."""
_INDEXED = frozenset(["get", "swap", "addupdate", "masked_load", "masked_swap", "dma_start", "dma_wait"])


def promises(jaxpr: Any, target: Target | None) -> Promises:
    """What the kernels of something that is traced already have to be told to compile, where it is proved.

    Nothing for a slice that is refused all the same. Promised are powers of two.
    """
    found: dict[int, dict[Any, int]] = {}
    for kernel in kernels(jaxpr, "mosaic_tpu" if target is not None else None):
        if kernel.backend == "mosaic_tpu" and _has_moving_index(kernel.jaxpr):
            own = _of_kernel(replace(kernel, path=(), around=()), target)
            found.update(guarded(own, "what may be promised", kernel.name))
    return found


def _has_moving_index(jaxpr: Any) -> bool:
    """Whether a ref is indexed by what is no constant; most kernels index by nothing."""
    for eqn in jaxapi.open_jaxpr(jaxpr).eqns:
        if eqn.primitive.name in _INDEXED:
            if any(jaxapi.is_variable(atom) and _is_scalar(atom.aval) for atom in eqn.invars):
                return True
        elif any(_has_moving_index(inner) for inner in jaxapi.inner_jaxprs(eqn)):
            return True
    return False


def _is_scalar(aval: Any) -> bool:
    return not jaxapi.is_ref(aval) and getattr(aval, "shape", None) == ()


def _of_kernel(kernel: KernelCall, target: Target | None) -> Iterator[tuple[int, dict[Any, int]]]:
    context = Context(backend="mosaic_tpu", target=target)
    wanted: set[tuple[int, Any]] = set()
    shared: dict[tuple[int, Any], int] = {}
    for use, parts, event in ranges_slices.by_part(kernel):
        moving = dict(_moving(parts))
        for (_, atom), multiple in moving.items():
            shared[id(use.eqn), atom] = math.gcd(shared.get((id(use.eqn), atom), 0), multiple)
        wanted |= {(id(use.eqn), atom) for _, atom in _needed(event, moving, context)}
    found: dict[int, dict[Any, int]] = {}
    for (eqn, atom), multiple in shared.items():
        if (eqn, atom) in wanted and (power := math.gcd(multiple, _MOST)) > 1:
            found.setdefault(eqn, {})[atom] = power
    yield from found.items()


type _Moving = Mapping[tuple[int, Any], int]
"""An axis of the ref and the variable that says where its part starts, or how long it is, to what divides that."""


def _moving(parts: tuple[Part, ...]) -> Iterator[tuple[tuple[int, Any], int]]:
    for axis, part in enumerate(parts):
        for atom, term in zip(part.atoms, (part.start, part.sized), strict=True):
            if term is not None and term.const is None and jaxapi.is_variable(atom):
                yield (axis, atom), _multiple(term)


def _multiple(term: Term) -> int:
    """What divides a term whatever the extents of the grid are: what is right for one step only is no proof."""
    known: Bounds = {}
    seen: set[Term] = set()
    todo = [term]
    while todo:
        part = todo.pop()
        if part not in seen:
            seen.add(part)
            todo.extend(part.args)
        if part.leaf is not None and part.leaf.low is not None and part.leaf.low == part.leaf.high:
            known[part] = Range(part.leaf.low, None)
    return bounds(term, known).multiple


def _needed(event: Slice, moving: _Moving, context: Context) -> set[tuple[int, Any]]:
    """The fewest of them to tell the compiler about, so that it takes the slice; none where nothing mends it."""
    axes = {axis for axis, _ in moving}
    if not axes or _fits(event, context) or not _fits(_told(event, moving, axes), context):
        return set()
    for axis in sorted(axes):
        if _fits(_told(event, moving, axes - {axis}), context):
            axes = axes - {axis}
    return {key for key in moving if key[0] in axes}


def _fits(event: Slice, context: Context) -> bool:
    return not any(True for _ in UnalignedSlice().judge(event, context))


def _told(event: Slice, moving: _Moving, axes: set[int]) -> Slice:
    """The slice as the compiler sees it once it is told what divides the starts and sizes of these axes."""
    return replace(event, parts=tuple(_promised(part, moving) if part.axis in axes else part for part in event.parts))


def _promised(part: SlicePart, moving: _Moving) -> SlicePart:
    divisor = math.gcd(_MOST, *(multiple for (axis, _), multiple in moving.items() if axis == part.axis))

    def known(tells: Callable[[int], Known]) -> Callable[[int], Known]:
        return lambda number: "yes" if divisor % number == 0 else tells(number)

    sized = None if part.sized is None else known(part.sized)
    return replace(part, proves=known(part.proves), sized=sized)
