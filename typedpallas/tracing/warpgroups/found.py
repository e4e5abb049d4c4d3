"""What was found while a Mosaic GPU kernel was followed, as events: each defect once, at its line."""

from collections.abc import Iterable, Iterator

from typedpallas.diagnostics import Place
from typedpallas.events import (
    BarrierOverrun,
    BarrierStarved,
    Context,
    CopyLeft,
    SharedInUse,
    SharedUse,
    StoreUncommitted,
    When,
)
from typedpallas.tracing import jaxapi
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall
from typedpallas.tracing.warpgroups.kernels import followed
from typedpallas.tracing.warpgroups.run import Run
from typedpallas.tracing.warpgroups.state import Barrier, Claim, How, InUse, Left, Moment, Starved, Uncommitted

type Found = BarrierOverrun | BarrierStarved | CopyLeft | SharedInUse | StoreUncommitted


def events(kernel: KernelCall, context: Context) -> Iterator[Located]:
    """Every asynchronous defect of a Mosaic GPU kernel; of a kernel that hangs the one wait that tells most."""
    if kernel.backend != "mosaic_gpu":
        return
    said: set[tuple[object, ...]] = set()
    for run in followed(kernel):
        found = [(claim, _event(run, claim)) for claim in _telling(run.claims)]
        overrun = any(isinstance(event, BarrierOverrun) for _, event in found)
        for claim, event in found:
            eqn = claim.record.eqn if isinstance(claim, Left) else claim.eqn
            place = jaxapi.place(eqn)
            place = place if place.file else kernel.place
            key = _key(claim, event, place)
            if key not in said and not (overrun and isinstance(event, SharedInUse)):
                said.add(key)
                yield Located(event, place, kernel.name)


def _key(claim: Claim, event: Found, place: Place) -> tuple[object, ...]:
    """What makes two findings the same one: a copy or a product that is not awaited is one, whatever comes of it."""
    if isinstance(event, BarrierOverrun | BarrierStarved):
        return type(event), event.barrier.partition("[")[0]
    if isinstance(claim, InUse | Left):
        return "not awaited", id(claim.record.eqn)
    return type(event), event.buffer, place.line, place.column


def _telling(claims: Iterable[Claim]) -> Iterator[Claim]:
    starved = [claim for claim in claims if isinstance(claim, Starved)]
    yield from (claim for claim in claims if not isinstance(claim, Starved))
    if starved:
        yield min(starved, key=_rank)


def _rank(claim: Starved) -> tuple[bool, int]:
    """A phase that began and does not end tells more than one that never began, and that more than a later one."""
    return claim.barrier.arrived == 0, claim.barrier.completed


def _event(run: Run, claim: Claim) -> Found:
    if isinstance(claim, Starved):
        barrier = claim.barrier
        return BarrierStarved(
            barrier=barrier.name,
            arrivals=barrier.arrivals,
            arrived=barrier.arrived,
            completed=barrier.completed,
            copies=barrier.copies,
            when=_when(claim.moment),
        )
    if isinstance(claim, Left):
        record = claim.record
        at = None if record.barrier is None else record.barrier.name
        direction = "copy to" if record.how == "copy to" else "copy from"
        return CopyLeft(buffer=claim.buffer.name, direction=direction, barrier=at, when=_when(record.moment))  # type: ignore[arg-type]
    if isinstance(claim, Uncommitted):
        return StoreUncommitted(
            buffer=claim.buffer.name,
            use=claim.how,
            handed_on=claim.record.moment.thread != claim.moment.thread,
            stored=_when(claim.record.moment),
            when=_when(claim.moment),
        )
    return _in_use(run, claim)


def _in_use(run: Run, claim: InUse) -> Found:
    record = claim.record
    lost = next(_lost(run, claim), None)
    if lost is not None:
        return BarrierOverrun(
            barrier=lost.name,
            arrivals=lost.arrivals,
            total=lost.total,
            waits=max(lost.waiters.values(), default=0),
            buffer=claim.buffer.name,
            use=claim.how,
            when=_when(claim.moment),
        )
    return SharedInUse(
        buffer=claim.buffer.name,
        use=claim.how,
        when=_when(claim.moment),
        other=_ENDED.get(record.how, record.how) if claim.ended else record.how,
        began=_when(record.moment),
        barrier=None if record.barrier is None else record.barrier.name,
    )


_ENDED: dict[How, SharedUse] = {"tensor load": "load", "tensor store": "store"}
"""What an access to tensor memory is when it has ended."""


def _lost(run: Run, claim: InUse) -> Iterator[Barrier]:
    """Barriers between the two whose phases ended faster than they were waited for."""
    if claim.record.barrier is not None:
        if claim.record.barrier.lost:
            yield claim.record.barrier
        return
    for buffer in run.buffers.values():
        for barrier in buffer.barriers:
            between = claim.record.thread.number in barrier.arrivers and claim.thread.number in barrier.waiters
            if between and barrier.lost:
                yield barrier


def _when(moment: Moment) -> When:
    return When(thread=moment.thread, turns=moment.turns, block=moment.point)
