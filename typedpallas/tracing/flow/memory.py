"""Loads and stores."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from typedpallas.tracing.flow import cells, regions
from typedpallas.tracing.flow.cells import Cells
from typedpallas.tracing.flow.choices import chosen
from typedpallas.tracing.flow.flights import early
from typedpallas.tracing.flow.names import Leaf
from typedpallas.tracing.flow.numbers import Number, exact
from typedpallas.tracing.flow.plan import Plan
from typedpallas.tracing.flow.regions import Region
from typedpallas.tracing.flow.run import Frame, Run, handles, read, scope
from typedpallas.tracing.flow.run import region as region_of
from typedpallas.tracing.flow.spans import Span
from typedpallas.tracing.flow.state import PLAIN, Bound, Buffer, Origin


@handles("unknown")
def unknown(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    """An operation of which nothing is known but the refs that it gets: they may hold anything afterwards."""
    doubt = False
    for atom in eqn.invars:
        buffer = read(frame, atom).buffer
        if buffer is None:
            doubt = doubt or bool(cells.worst(read(frame, atom).cells))
            continue
        doubt = doubt or bool(cells.worst(run.state.cells.get(buffer.number, 0)))
        forget(run, buffer)
    return [Bound(cells=cells.MAYBE) if doubt else PLAIN for _ in eqn.outvars]


def forget(run: Run, buffer: Buffer) -> None:
    """Anything may have happened to a buffer or a semaphore."""
    run.tables.pop(buffer.number, None)
    run.written.add(buffer.number)
    if buffer.number in run.state.cells:
        run.state.cells[buffer.number] = cells.MAYBE
    if buffer.number in run.state.counts:
        run.state.counts[buffer.number] = tuple(held.forgotten() for held in run.state.counts[buffer.number])
        run.waited.add(buffer.number)
    run.state.flights = tuple(
        flight
        for flight in run.state.flights
        if buffer not in (flight.semaphore[0], flight.source[0], flight.target[0])
    )


@handles("semaphore_read", "add_dependency", "debug_print", "delay")
def _nothing(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    return [PLAIN] * len(eqn.outvars)


type Mask = Callable[[], Span]
"""Works out what is known of a mask."""


def _part(span: Span, inside: tuple[slice, ...] | None) -> Span:
    if span is None or inside is None:
        return span
    return cells.part_of(span[0], inside), cells.part_of(span[1], inside)


def _parts(run: Run, eqn: Any) -> tuple[Any, Sequence[Any], Any, Any, Any]:
    """The ref, its transforms, the stored value, the mask of an access, and what it gives where that is false."""
    name = eqn.primitive.name
    if "args_tree" in eqn.params:
        parts = run.plans.operands(eqn)
        if name == "masked_swap":
            return parts[0], parts[1], parts[2], parts[3], None
        return parts[0], parts[1], None, parts[2], parts[3]
    return eqn.invars[0], run.plans.operands(eqn), None if name == "get" else eqn.invars[1], None, None


@handles("get", "swap", "addupdate", "masked_load", "masked_swap")
def _access(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    if _is_meant(run, eqn, frame):
        return [PLAIN] * len(eqn.outvars)
    ref, transforms, value, mask, other = _parts(run, eqn)
    buffer = read(frame, ref).buffer
    if buffer is None or buffer.number not in run.state.cells:
        return [Bound(cells=cells.MAYBE)] * len(eqn.outvars)
    region = region_of(run, frame, transforms, buffer.shape)
    adds = eqn.primitive.name == "addupdate"
    loads = value is None or adds or any(var in plan.used for var in eqn.outvars)
    loaded = _loaded(run, eqn, buffer, region, mask is not None) if loads else PLAIN
    span = None if mask is None else functools.partial(scope(plan, frame).of, mask)
    if not adds:
        loaded = _fitted(loaded, eqn.outvars[0].aval.shape)
    if span is not None:
        loaded = _masked(loaded, read(frame, other) if other is not None else None, span, eqn.outvars[0].aval.shape)
    if value is None:
        entry = _entry(run, eqn, buffer, region) if mask is None else None
        if run.naming is not None and mask is None and exact(entry) is None and eqn.outvars[0].aval.shape == ():
            return [_named(run, eqn, buffer, region, replace(loaded, number=entry))]
        return [loaded if entry is None else replace(loaded, number=entry)]
    stored = read(frame, value)
    if adds:
        stored = added(loaded, stored)
    early(run, eqn, "store", buffer, region)
    put(run, buffer, region, stored, span)
    return [] if adds else [loaded]


def _is_meant(run: Run, eqn: Any, frame: Frame) -> bool:
    """Whether all of a buffer is meant, before and after, wherever in it a plain access goes."""
    name = eqn.primitive.name
    buffer = frame.get(eqn.invars[0], PLAIN).buffer
    if name.startswith("masked") or buffer is None or run.state.flights or run.naming is not None:
        return False
    if buffer.number in run.tables or cells.worst(run.state.cells.get(buffer.number, cells.MAYBE)):
        return False
    if name != "get":
        if cells.worst(read(frame, eqn.invars[1]).cells):
            return False
        run.written.add(buffer.number)
    return True


def _entry(run: Run, eqn: Any, buffer: Buffer, region: Region | None) -> Number:
    """What a load of one scalar gets of a table whose contents are known."""
    table = run.tables.get(buffer.number)
    if table is None or region is None or region.count != 1:
        return None
    starts = [side.start for side in region.sides]
    for axis, start in enumerate(starts) if not run.guards else ():
        number = exact(start)
        if number is not None and not 0 <= number < buffer.shape[axis]:
            run.outside.setdefault((id(eqn), axis), (eqn, number, run.ids))
    if any(start is None or start[0] < 0 for start in starts):
        return None
    part = table[tuple(slice(start[0], start[1] + 1) for start in starts if start is not None)]
    return (int(part.min()), int(part.max())) if part.size else None


def _named(run: Run, eqn: Any, buffer: Buffer, region: Region | None, loaded: Bound) -> Bound:
    """A scalar with its name: of an input that nothing writes, that of the element."""
    naming = run.naming
    assert naming is not None
    starts = () if region is None else tuple(exact(side.start) for side in region.sides)
    if buffer.role != "in" or buffer.number in naming.written or region is None:
        return loaded
    steps = tuple(map(exact, run.ids)) if buffer.number in naming.moving else ()
    var = eqn.outvars[0]
    if None in starts or None in steps:
        name = naming.leaf(var)
    else:
        label = f"{buffer.name}[{', '.join(map(str, starts))}]" if starts else f"{buffer.name}[...]"
        name = Leaf((buffer.number, starts, steps), var.aval.dtype.kind, label)
    number, called = naming.settled(loaded.number, name)
    return replace(loaded, number=number, name=called)


def _loaded(run: Run, eqn: Any, buffer: Buffer, region: Region | None, masked: bool) -> Bound:
    early(run, eqn, "load", buffer, region)
    held = run.state.cells[buffer.number]
    if (
        masked
        and isinstance(held, int)
        and held == cells.MEANT
        and buffer.number in run.ending
        and region is not None
    ):
        return _past_the_end(run, eqn, buffer, region)
    found = regions.taken(held, buffer.shape, region)
    if cells.worst(found) == cells.MEANT:
        return PLAIN
    return Bound(cells=found, origin=origin_of(run, eqn, buffer, region, held, found))


def _past_the_end(run: Run, eqn: Any, buffer: Buffer, region: Region) -> Bound:
    """What a masked load takes of an input, before the mask drops it: garbage where the input has ended."""
    clip = region.clipped(buffer.shape)
    if clip is None or clip[0].shape == region.shape:
        return PLAIN
    found: Cells = cells.MEANT
    for axis, (size, kept) in enumerate(zip(region.shape, clip[0].shape, strict=True)):
        along = np.arange(size).reshape([-1 if other == axis else 1 for other in range(len(region.shape))])
        found = cells.worse(found, np.where(along < kept, cells.MEANT, cells.UNWRITTEN).astype(np.uint8))
    sides = list(zip(clip[0].sides, region.sides, strict=True))
    axis = next(k for k, (kept, side) in enumerate(sides) if kept.size < side.size)
    start = exact(region.sides[axis].start) or 0
    past = (axis, start, start + region.sides[axis].size)
    return Bound(cells=found, origin=Origin(buffer, eqn, run.ids, None, past=past))


def origin_of(run: Run, eqn: Any, buffer: Buffer, region: Region | None, held: Cells, found: Cells) -> Origin | None:
    """Where the garbage that a load of a region gets comes from."""
    if cells.worst(found) < cells.SPOILED:
        return None
    if cells.worst(found) == cells.SPOILED:
        return run.state.origins.get(buffer.number)
    if isinstance(held, int) or region is None or (slices := region.slices) is None:
        return Origin(buffer, eqn, run.ids, cells.first_garbage(held, buffer.shape))
    first = cells.first_garbage(cells.part_of(held, slices), buffer.shape)
    element = (
        None if first is None else tuple(side.start + k * side.step for side, k in zip(slices, first, strict=True))
    )
    return Origin(buffer, eqn, run.ids, element)


def _fitted(bound: Bound, shape: Sequence[int]) -> Bound:
    """Cells in the shape of the value that they are of."""
    if cells.fits(bound.cells, shape):
        return bound
    return Bound(bound.number, cells.one(bound.cells), bound.origin)


def _masked(loaded: Bound, other: Bound | None, mask: Mask, shape: Sequence[int]) -> Bound:
    """What a masked load gives; where its mask is false that is ``other``, or nobody knows."""
    if not cells.worst(loaded.cells) and (other is None or not cells.worst(other.cells)):
        return PLAIN
    rest = cells.MAYBE if other is None else cells.computed(other.cells)
    found = chosen(mask(), loaded.cells, rest, cells.MAYBE, shape)
    return Bound(cells=found, origin=loaded.origin if cells.worst(loaded.cells) or other is None else other.origin)


def added(left: Bound, right: Bound) -> Bound:
    """What is stored where one value is added to another."""
    if cells.alike(left.cells, right.cells):
        return Bound(cells=cells.computed(left.cells, right.cells), origin=left.origin or right.origin)
    return Bound(cells=cells.MAYBE)


def put(run: Run, buffer: Buffer, region: Region | None, value: Bound, mask: Mask | None = None) -> None:
    """A value goes to a region, or, where that is masked, perhaps does not."""
    run.tables.pop(buffer.number, None)
    run.written.add(buffer.number)
    held = run.state.cells[buffer.number]
    found, inside = cells.computed(value.cells), None
    if not cells.worst(held) and not cells.worst(found):
        return
    if mask is not None and region is not None and cells.fits(found, region.shape):
        clip = region.clipped(buffer.shape)
        if clip is not None:
            region, inside = clip
            found = found if isinstance(found, int) else cells.slim(cells.part_of(found, inside))
    if not isinstance(found, int) and (region is None or not cells.fits(found, region.shape)):
        found = cells.one(found)
    if mask is not None:
        before = regions.taken(held, buffer.shape, region)
        fits = cells.alike(before, found)
        joined = cells.join(before, found) if fits else cells.MAYBE
        same = isinstance(before, int) and isinstance(found, int) and before == found
        fits = fits and region is not None and not same
        if fits and region is not None:
            found = chosen(_part(mask(), inside), found, before, joined, region.shape)
        else:
            found = joined
    run.state.cells[buffer.number] = regions.stored(held, buffer.shape, region, found)
    if value.origin is not None and cells.worst(found) >= cells.SPOILED:
        run.state.origins[buffer.number] = value.origin
