"""Copies between memories, and waits and signals of semaphores."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from typedpallas.tracing.flow import cells, regions
from typedpallas.tracing.flow.claims import Hang, Left
from typedpallas.tracing.flow.flights import count, early, take
from typedpallas.tracing.flow.memory import added, forget, origin_of, put
from typedpallas.tracing.flow.numbers import exact
from typedpallas.tracing.flow.plan import Plan
from typedpallas.tracing.flow.run import Frame, NotFollowed, Run, handles, number_of, read
from typedpallas.tracing.flow.run import region as region_of
from typedpallas.tracing.flow.state import Bound, Buffer, Flight, View

_MOST_FLIGHTS = 64
"""Of more copies under way at once the first are left alone."""


def _view(run: Run, frame: Frame, part: Any) -> View:
    """The buffer and the region of a copy's operand."""
    ref, transforms = (part.ref, part.transforms) if hasattr(part, "transforms") else (part, ())
    if isinstance(ref, tuple | list):
        raise NotFollowed("one of several refs")
    buffer = read(frame, ref).buffer
    return buffer, None if buffer is None else region_of(run, frame, transforms, buffer.shape)


def _bits(view: View) -> int | None:
    buffer, region = view
    return None if buffer is None or region is None or not buffer.bits else region.count * buffer.bits


def _element(view: View) -> tuple[Buffer | None, int | None]:
    """The one semaphore that a view of an array of them selects, as a flat number."""
    buffer, region = view
    if buffer is None or region is None or region.count != 1:
        return buffer, None
    starts = [exact(side.start) for side in region.sides]
    if any(start is None or not 0 <= start < extent for start, extent in zip(starts, buffer.shape, strict=True)):
        return buffer, None
    return buffer, int(np.ravel_multi_index(starts, buffer.shape)) if starts else 0  # type: ignore[arg-type]


@handles("dma_start")
def _start(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    *ends, sent, device = run.plans.operands(eqn)
    source, target, semaphore = (_view(run, frame, part) for part in ends)
    into, box = target
    if into is None or source[0] is None or semaphore[0] is None:
        raise NotFollowed("a copy between unknown buffers")
    early(run, eqn, "copy from", source[0], source[1])
    early(run, eqn, "copy to", into, box)
    held = run.state.cells.get(source[0].number, cells.MAYBE)
    found = regions.taken(held, source[0].shape, source[1])
    origin = origin_of(run, eqn, source[0], source[1], held, found)
    moved = Bound(cells=found, origin=origin)
    if eqn.params.get("add"):
        moved = added(moved, Bound(cells=regions.taken(run.state.cells[into.number], into.shape, box)))
    run.written.add(into.number)
    if into.number in run.state.cells:
        put(run, into, box, moved)
    begin = functools.partial(_begin, run, eqn, _bits(target))
    if sent is None and device is None:
        begin(semaphore, (source[0], source[1]), (into, box))
        return ()
    run.shared.add(semaphore[0].number)
    begin(_view(run, frame, sent), (source[0], source[1]), (_elsewhere(into), None))
    begin(semaphore, (_elsewhere(source[0]), None), (into, box))
    return ()


def _elsewhere(buffer: Buffer) -> Buffer:
    """The same buffer of another device: to and from it goes what no use here is in the way of."""
    return replace(buffer, number=-1 - buffer.number, name=f"{buffer.name} (another device's)", role="unknown")


def _begin(run: Run, eqn: Any, bits: int | None, semaphore: View, source: Any, target: Any) -> None:
    """A copy is under way until what its semaphore gets is waited for.

    One to another device is two: what it reads here is free when it was sent, and as every device runs the same,
    another one's copy comes to what it writes there.
    """
    sem, element = _element(semaphore)
    if sem is None:
        raise NotFollowed("a copy that counts on an unknown semaphore")
    flight = Flight(eqn, (sem, element), source, target, run.guards, run.ids, bits)
    count(run, (sem, element), bits)
    run.starts[sem.number, element] = flight
    run.state.flights = (*run.state.flights[1 - _MOST_FLIGHTS :], flight)


@handles("dma_wait")
def _wait(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    source, target, semaphore = (_view(run, frame, part) for part in run.plans.operands(eqn)[:3])
    sem, element = _element(semaphore)
    if sem is None:
        raise NotFollowed("a wait for an unknown semaphore")
    take(
        run,
        eqn,
        (sem, element),
        _bits(target),
        (target, source) if eqn.params.get("is_wait_send") else (source, target),
    )
    return ()


@handles("semaphore_signal")
def _signal(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    ref, transforms, more, device, core = run.plans.operands(eqn)
    if core is not None:
        raise NotFollowed("a signal to another core")
    buffer = read(frame, ref).buffer
    if buffer is None:
        return ()
    if device is not None:
        run.shared.add(buffer.number)
    sem, element = _element((buffer, region_of(run, frame, transforms, buffer.shape)))
    assert sem is not None
    count(run, (sem, element), exact(number_of(frame)(more)))
    return ()


@handles("semaphore_wait")
def _semaphore_wait(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    ref, transforms, wanted, decrement = run.plans.operands(eqn)
    buffer = read(frame, ref).buffer
    if buffer is None:
        return ()
    sem, element = _element((buffer, region_of(run, frame, transforms, buffer.shape)))
    assert sem is not None
    if buffer.bits or exact(number_of(frame)(decrement)) != 1:
        forget(run, buffer)
    else:
        take(run, eqn, (sem, element), exact(number_of(frame)(wanted)))
    return ()


def leak(run: Run, buffer: Buffer) -> None:
    """Claim what is left on a semaphore at the end of its scope."""
    for element, held in enumerate(run.state.counts.get(buffer.number, ())):
        start = run.starts.get((buffer.number, element))
        if buffer.bits and start is None:
            continue
        never = buffer.number not in run.waited and start is not None
        if run.guards and not (start is not None and run.guards <= start.guards):
            continue
        if held.low > 0 or (never and held.high > 0):
            eqn = None if start is None else start.eqn
            amount, sometimes = (held.low, False) if held.low > 0 else (held.high, True)
            run.claims.append(Left(buffer, element, amount, start, eqn, sometimes, held.free))
        elif held.high < 0 and (buffer.number, element) in run.waits:
            eqn, ids, wanted = run.waits[buffer.number, element]
            run.claims.append(Hang(buffer, element, wanted, max(wanted + held.high, 0), ids, eqn, held.free))
