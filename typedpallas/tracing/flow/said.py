"""What is said of copies and semaphores: the events of claims about them."""

from collections.abc import Sequence
from typing import Any

from typedpallas.events import CopyInUse, Given, SemaphoreLeft, SemaphoreStarved
from typedpallas.tracing.flow.claims import Early, Hang, Left
from typedpallas.tracing.flow.state import MANY, Flight, Ids


def event(claim: Left | Hang | Early, given: Given | None) -> SemaphoreLeft | SemaphoreStarved | CopyInUse:
    """The event; ``given`` is the case in which it holds."""
    if isinstance(claim, Left):
        return _left(claim, given)
    return _hang(claim, given) if isinstance(claim, Hang) else _early(claim, given)


def point(ids: Ids) -> tuple[int, ...]:
    """A step as a witness: of a run of steps, the first."""
    return tuple(0 if number is None else number[0] for number in ids)


def _name(flight_or_semaphore: Any, element: int | None, shape: Sequence[int]) -> str:
    if element is None or not shape:
        return str(flight_or_semaphore)
    index = []
    for extent in reversed(shape):
        index.append(element % extent)
        element //= extent
    return f"{flight_or_semaphore}[{', '.join(map(str, reversed(index)))}]"


def _left(claim: Left, given: Given | None) -> SemaphoreLeft:
    start = claim.start
    return SemaphoreLeft(
        semaphore=_name(claim.semaphore.name, claim.element, claim.semaphore.shape),
        counts="bytes" if claim.semaphore.bits else "signals",
        left=_amount(claim.count, claim.semaphore.bits),
        source=None if start is None else start.source[0].name,
        target=None if start is None else start.target[0].name,
        step=() if start is None else point(start.ids),
        sometimes=claim.sometimes,
        given=given,
        shared=claim.shared,
    )


def _amount(count: int, bits: int) -> int | None:
    if count >= MANY:
        return None
    return count // 8 if bits else count


def _hang(claim: Hang, given: Given | None) -> SemaphoreStarved:
    return SemaphoreStarved(
        semaphore=_name(claim.semaphore.name, claim.element, claim.semaphore.shape),
        counts="bytes" if claim.semaphore.bits else "signals",
        wanted=_amount(claim.wanted, claim.semaphore.bits) or 0,
        there=_amount(claim.there, claim.semaphore.bits) or 0,
        step=point(claim.ids),
        given=given,
        shared=claim.shared,
    )


def _early(claim: Early, given: Given | None) -> CopyInUse:
    return CopyInUse(
        how=claim.how,
        buffer=claim.buffer.name,
        side=claim.side,
        source=claim.flight.source[0].name,
        target=claim.flight.target[0].name,
        semaphore=_semaphore(claim.flight),
        started=point(claim.flight.ids),
        step=point(claim.ids),
        given=given,
        other=None if claim.other is None else f"{claim.other.source[0].name} -> {claim.other.target[0].name}",
    )


def _semaphore(flight: Flight) -> str:
    sem, element = flight.semaphore
    return _name(sem.name, element, sem.shape)
