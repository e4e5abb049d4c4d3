"""Copies under way, and what semaphores count of them.

A DMA semaphore counts bytes. What it still has to give, all that was started on it less all that was waited for, is
how much of its copies may be missing: a copy of at most that size may be under way, since the others may have given
what the waits took. A larger one has ended at least in part, which is not told from ended.
"""

from dataclasses import replace
from typing import Any

from typedpallas.tracing.flow import regions
from typedpallas.tracing.flow.claims import Early, Hang
from typedpallas.tracing.flow.regions import Region
from typedpallas.tracing.flow.run import Run
from typedpallas.tracing.flow.state import MANY, Buffer, Count, Element, Flight, View


def early(run: Run, eqn: Any, how: Any, buffer: Buffer, region: Region | None) -> None:
    """Whether a buffer is certainly used while a copy that touches it is under way."""
    number = buffer.number
    for flight in run.state.flights:
        if number not in (flight.target[0].number, flight.source[0].number):
            continue
        if not run.guards <= flight.guards or region is None or (how == "copy to" and _adds(eqn, flight)):
            continue
        target, box = flight.target
        if target.number == number and box is not None and regions.meet(region, box):
            run.claims.append(Early(how, buffer, "target", flight, run.ids, eqn, _other(run, flight)))
        source, box = flight.source
        reaches = how in ("store", "copy to") and source.number == number
        if reaches and box is not None and regions.meet(region, box):
            run.claims.append(Early(how, buffer, "source", flight, run.ids, eqn, _other(run, flight)))


def _other(run: Run, flight: Flight) -> Flight | None:
    """Another copy under way on the semaphore of one that was waited for."""
    others = (other for other in run.state.flights if other.semaphore == flight.semaphore and other is not flight)
    return next(others, None) if flight.asked else None


def _adds(eqn: Any, flight: Flight) -> bool:
    """Whether two copies to one place may well be under way at once: both add to it."""
    return bool(eqn.params.get("add") and flight.eqn.params.get("add"))


def count(run: Run, semaphore: Element, more: int | None) -> None:
    """A semaphore goes up."""
    sem, element = semaphore
    run.begun.add(sem.number)
    counts = run.state.counts.get(sem.number)
    if counts is None:
        return
    run.state.counts[sem.number] = tuple(
        _up(held, more, certain=element is not None) if element in (None, k) else held
        for k, held in enumerate(counts)
    )


def _up(held: Count, more: int | None, certain: bool) -> Count:
    if more is None:
        return Count(held.low, MANY, held.free)
    return Count(held.low + (more if certain else 0), min(held.high + more, MANY), held.free)


def take(run: Run, eqn: Any, semaphore: Element, wanted: int | None, meant: tuple[View, ...] = ()) -> None:
    """A semaphore is waited for, and goes down. ``meant``: both ends of the copy that the wait names."""
    sem, element = semaphore
    run.waited.add(sem.number)
    counts = run.state.counts.get(sem.number)
    if counts is not None:
        reached = [held for k, held in enumerate(counts) if element in (None, k)]
        most = max((_most(run, sem, held) for held in reached), default=MANY)
        if wanted is not None and most < wanted and not run.guards:
            run.claims.append(Hang(sem, element, wanted, most, run.ids, eqn, sem.number in run.remote))
        if sem.number in run.remote and wanted is not None:
            named = range(len(counts)) if element is None else (element,)
            run.waits |= {(sem.number, k): (eqn, run.ids, wanted) for k in named}
        run.state.counts[sem.number] = counts = tuple(
            _down(held, wanted, certain=element is not None) if element in (None, k) else held
            for k, held in enumerate(counts)
        )
    run.state.flights = tuple(
        _asked(flight, meant) if _may_end(flight.semaphore, semaphore) else flight
        for flight in run.state.flights
        if not _may_end(flight.semaphore, semaphore) or _may_be_missing(flight, counts)
    )


def _most(run: Run, sem: Buffer, held: Count) -> int:
    """What a wait may find at most. Other devices may be further on, but not before the first of them has begun."""
    if held.free:
        return MANY if sem.number in run.begun else 0
    return held.high


def _may_be_missing(flight: Flight, counts: tuple[Count, ...] | None) -> bool:
    """Whether what was waited for on its semaphore is certainly less than must be to know that a copy has ended."""
    element = flight.semaphore[1]
    if counts is None or element is None or flight.bits is None:
        return False
    return 0 < flight.bits <= counts[element].low


def _asked(flight: Flight, meant: tuple[View, ...]) -> Flight:
    """A copy that a wait may name, marked so."""
    ends = (flight.source, flight.target)
    named = any(
        one[0] == end[0] and one[1] is not None and one[1] == end[1] and one[1].slices is not None
        for one, end in zip(meant, ends, strict=False)
    )
    return replace(flight, asked=True) if named else flight


def _may_end(flight: Element, waited: Element) -> bool:
    """Whether a wait for one semaphore may be for a copy on another."""
    return flight[0] == waited[0] and (waited[1] is None or flight[1] is None or flight[1] == waited[1])


def _down(held: Count, less: int | None, certain: bool) -> Count:
    if less is None:
        return Count(held.least, held.high, held.free)
    high = held.high if held.high >= MANY or not certain else max(held.high - less, held.least)
    return Count(max(held.low - less, held.least), high, held.free)
