"""Loads, stores, copies and semaphores."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from typedpallas.tracing import flow_cells as cells
from typedpallas.tracing import flow_regions as regions
from typedpallas.tracing.flow_cells import Cells
from typedpallas.tracing.flow_claims import Early, Hang
from typedpallas.tracing.flow_numbers import exact
from typedpallas.tracing.flow_plan import Plan
from typedpallas.tracing.flow_regions import Region
from typedpallas.tracing.flow_run import Frame, NotFollowed, Run, handles, number_of, read
from typedpallas.tracing.flow_state import ANY_COUNT, MANY, PLAIN, Bound, Buffer, Count, Flight, Origin


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
    if buffer.number in run.state.cells:
        run.state.cells[buffer.number] = cells.MAYBE
    if buffer.number in run.state.counts:
        run.state.counts[buffer.number] = (ANY_COUNT,) * len(run.state.counts[buffer.number])
        run.waited.add(buffer.number)
    run.state.flights = tuple(
        flight
        for flight in run.state.flights
        if buffer not in (flight.semaphore[0], flight.source[0], flight.target[0])
    )


@handles("semaphore_read", "get_barrier_semaphore", "add_dependency", "debug_print", "delay")
def _nothing(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    return [PLAIN] * len(eqn.outvars)


def _parts(eqn: Any) -> tuple[Any, Sequence[Any], Any, Any]:
    """The ref, its transforms, the stored value and the mask of an access."""
    name = eqn.primitive.name
    if "args_tree" in eqn.params:
        parts = eqn.params["args_tree"].unflatten(eqn.invars)
        value = parts[2] if name == "masked_swap" else None
        return parts[0], parts[1], value, parts[3 if name == "masked_swap" else 2]
    first = 1 if name == "get" else 2
    transforms = eqn.params["tree"].unflatten(eqn.invars[first:])
    return eqn.invars[0], transforms, None if name == "get" else eqn.invars[1], None


@handles("get", "swap", "addupdate", "masked_load", "masked_swap")
def _access(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    ref, transforms, value, mask = _parts(eqn)
    buffer = read(frame, ref).buffer
    if buffer is None or buffer.number not in run.state.cells:
        return [Bound(cells=cells.MAYBE)] * len(eqn.outvars)
    region = regions.resolve(transforms, buffer.shape, number_of(frame))
    adds = eqn.primitive.name == "addupdate"
    loads = value is None or adds or any(var in plan.used for var in eqn.outvars)
    loaded = _loaded(run, eqn, buffer, region) if loads else PLAIN
    if value is None:
        return [_masked(loaded) if mask is not None else _fitted(loaded, eqn.outvars[0].aval.shape)]
    stored = read(frame, value)
    if adds:
        stored = _added(loaded, stored)
    _store(run, eqn, (buffer, region), stored, masked=mask is not None)
    return [] if adds else [_masked(loaded) if mask is not None else _fitted(loaded, eqn.outvars[0].aval.shape)]


def _loaded(run: Run, eqn: Any, buffer: Buffer, region: Region | None) -> Bound:
    _early(run, eqn, "load", buffer, region)
    held = run.state.cells[buffer.number]
    found = regions.taken(held, buffer.shape, region)
    if cells.worst(found) == cells.MEANT:
        return PLAIN
    return Bound(cells=found, origin=_origin(run, eqn, buffer, region, held, found))


def _origin(run: Run, eqn: Any, buffer: Buffer, region: Region | None, held: Cells, found: Cells) -> Origin | None:
    if cells.worst(found) < cells.SPOILED:
        return None
    if cells.worst(found) == cells.SPOILED:
        return run.state.origins.get(buffer.number)
    if isinstance(held, int) or region is None or (slices := region.slices) is None:
        return Origin(buffer, eqn, run.ids, cells.first_garbage(held, buffer.shape))
    inside = np.full(held.shape, cells.MEANT, np.uint8)
    inside[slices] = held[slices]
    return Origin(buffer, eqn, run.ids, cells.first_garbage(inside, buffer.shape))


def _fitted(bound: Bound, shape: Sequence[int]) -> Bound:
    """Cells in the shape of the value that they are of."""
    if isinstance(bound.cells, int) or bound.cells.shape == tuple(shape):
        return bound
    return Bound(bound.number, cells.one(bound.cells), bound.origin)


def _masked(bound: Bound) -> Bound:
    """A masked load may leave garbage where it is."""
    return Bound(cells=cells.doubtful(bound.cells)) if cells.worst(bound.cells) else PLAIN


def _added(left: Bound, right: Bound) -> Bound:
    if isinstance(left.cells, int) or isinstance(right.cells, int) or left.cells.shape == right.cells.shape:
        return Bound(cells=cells.computed(left.cells, right.cells), origin=left.origin or right.origin)
    return Bound(cells=cells.MAYBE)


def _store(run: Run, eqn: Any, where: tuple[Buffer, Region | None], value: Bound, masked: bool) -> None:
    buffer, region = where
    _early(run, eqn, "store", buffer, region)
    put(run, buffer, region, value, masked)


def put(run: Run, buffer: Buffer, region: Region | None, value: Bound, perhaps: bool = False) -> None:
    """A value goes to a region, or perhaps does not."""
    held = run.state.cells[buffer.number]
    found = cells.computed(value.cells)
    if not isinstance(found, int) and (region is None or found.shape != region.shape):
        found = cells.one(found)
    if perhaps:
        before = regions.taken(held, buffer.shape, region)
        fits = isinstance(before, int) or isinstance(found, int) or before.shape == found.shape
        found = cells.join(before, found) if fits else cells.MAYBE
    run.state.cells[buffer.number] = regions.stored(held, buffer.shape, region, found)
    if value.origin is not None and cells.worst(found) >= cells.SPOILED:
        run.state.origins[buffer.number] = value.origin


def _early(run: Run, eqn: Any, how: Any, buffer: Buffer, region: Region | None) -> None:
    """Whether a buffer is certainly used while a copy that touches it is under way."""
    for flight in run.state.flights:
        if not run.guards <= flight.guards or region is None or (how == "copy to" and _adds(eqn, flight)):
            continue
        target, box = flight.target
        if target == buffer and box is not None and regions.meet(region, box):
            run.claims.append(Early(how, buffer, "target", flight, run.ids, eqn))
        source, box = flight.source
        if how in ("store", "copy to") and source == buffer and box is not None and regions.meet(region, box):
            run.claims.append(Early(how, buffer, "source", flight, run.ids, eqn))


def _adds(eqn: Any, flight: Flight) -> bool:
    """Whether two copies to one place may well be under way at once: both add to it."""
    return bool(eqn.params.get("add") and flight.eqn.params.get("add"))


def _view(run: Run, frame: Frame, part: Any) -> tuple[Buffer | None, Region | None]:
    """The buffer and the region of a copy's operand."""
    ref, transforms = (part.ref, part.transforms) if hasattr(part, "transforms") else (part, ())
    if isinstance(ref, tuple | list):
        raise NotFollowed("one of several refs")
    buffer = read(frame, ref).buffer
    return buffer, None if buffer is None else regions.resolve(transforms, buffer.shape, number_of(frame))


def _bits(view: tuple[Buffer | None, Region | None]) -> int | None:
    buffer, region = view
    return None if buffer is None or region is None or not buffer.bits else region.count * buffer.bits


def _element(view: tuple[Buffer | None, Region | None]) -> tuple[Buffer | None, int | None]:
    """The one semaphore that a view of an array of them selects, as a flat number."""
    buffer, region = view
    if buffer is None or region is None or region.count != 1:
        return buffer, None
    starts = [exact(side.start) for side in region.sides]
    if any(start is None or not 0 <= start < extent for start, extent in zip(starts, buffer.shape, strict=True)):
        return buffer, None
    return buffer, int(np.ravel_multi_index(starts, buffer.shape)) if starts else 0  # type: ignore[arg-type]


def _copy(eqn: Any) -> Sequence[Any]:
    """Source, target and semaphore of a copy on one device."""
    source, target, semaphore, other, device = eqn.params["tree"].unflatten(eqn.invars)
    if other is not None or device is not None:
        raise NotFollowed("a copy to another device")
    return source, target, semaphore


@handles("dma_start")
def _start(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    source, target, semaphore = (_view(run, frame, part) for part in _copy(eqn))
    into, box = target
    if into is None or source[0] is None or semaphore[0] is None:
        raise NotFollowed("a copy between unknown buffers")
    _early(run, eqn, "copy from", source[0], source[1])
    _early(run, eqn, "copy to", into, box)
    held = run.state.cells.get(source[0].number, cells.MAYBE)
    found = regions.taken(held, source[0].shape, source[1])
    origin = _origin(run, eqn, source[0], source[1], held, found)
    moved = Bound(cells=found, origin=origin)
    if eqn.params.get("add"):
        moved = _added(moved, Bound(cells=regions.taken(run.state.cells[into.number], into.shape, box)))
    if into.number in run.state.cells:
        put(run, into, box, moved)
    sem, element = _element(semaphore)
    assert sem is not None
    flight = Flight(eqn, (sem, element), (source[0], source[1]), (into, box), run.guards, run.ids)
    _count(run, sem, element, _bits(target))
    run.starts[sem.number, element] = flight
    run.state.flights = (*run.state.flights, flight)
    return ()


@handles("dma_wait")
def _wait(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    _, target, semaphore = _copy(eqn)
    sem, element = _element(_view(run, frame, semaphore))
    if sem is None:
        raise NotFollowed("a wait for an unknown semaphore")
    bits = _bits(_view(run, frame, target))
    _take(run, eqn, sem, element, bits)
    return ()


def _count(run: Run, sem: Buffer, element: int | None, more: int | None) -> None:
    """A semaphore goes up."""
    counts = run.state.counts.get(sem.number)
    if counts is None:
        return
    run.state.counts[sem.number] = tuple(
        _up(count, more, certain=element is not None) if element in (None, k) else count
        for k, count in enumerate(counts)
    )


def _up(count: Count, more: int | None, certain: bool) -> Count:
    if more is None:
        return Count(count.low, MANY)
    return Count(count.low + (more if certain else 0), min(count.high + more, MANY))


def _take(run: Run, eqn: Any, sem: Buffer, element: int | None, wanted: int | None) -> None:
    """A semaphore is waited for, and goes down."""
    run.waited.add(sem.number)
    run.state.flights = tuple(flight for flight in run.state.flights if not _may_end(flight.semaphore, sem, element))
    counts = run.state.counts.get(sem.number)
    if counts is None:
        return
    reached = [count for k, count in enumerate(counts) if element in (None, k)]
    most = max((count.high for count in reached), default=MANY)
    if wanted is not None and most < wanted and not run.guards:
        run.claims.append(Hang(sem, element, wanted, most, run.ids, eqn))
    run.state.counts[sem.number] = tuple(
        _down(count, wanted, certain=element is not None) if element in (None, k) else count
        for k, count in enumerate(counts)
    )


def _may_end(semaphore: tuple[Buffer, int | None], waited: Buffer, element: int | None) -> bool:
    """Whether a wait for one semaphore may be for a copy on another."""
    return semaphore[0] == waited and (element is None or semaphore[1] is None or element == semaphore[1])


def _down(count: Count, less: int | None, certain: bool) -> Count:
    if less is None:
        return Count(0, count.high)
    high = count.high if count.high >= MANY or not certain else max(count.high - less, 0)
    return Count(max(count.low - less, 0), high)


@handles("semaphore_signal")
def _signal(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    ref, transforms, more, device, core = eqn.params["args_tree"].unflatten(eqn.invars)
    if device is not None or core is not None:
        raise NotFollowed("a signal to another core")
    buffer = read(frame, ref).buffer
    if buffer is None:
        return ()
    sem, element = _element((buffer, regions.resolve(transforms, buffer.shape, number_of(frame))))
    assert sem is not None
    _count(run, sem, element, exact(number_of(frame)(more)))
    return ()


@handles("semaphore_wait")
def _semaphore_wait(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    ref, transforms, wanted, decrement = eqn.params["args_tree"].unflatten(eqn.invars)
    buffer = read(frame, ref).buffer
    if buffer is None:
        return ()
    sem, element = _element((buffer, regions.resolve(transforms, buffer.shape, number_of(frame))))
    assert sem is not None
    if buffer.bits or exact(number_of(frame)(decrement)) != 1:
        forget(run, buffer)
    else:
        _take(run, eqn, sem, element, exact(number_of(frame)(wanted)))
    return ()
