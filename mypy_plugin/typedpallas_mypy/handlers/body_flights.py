"""Copies that are certainly under way at one place of a path, and what is done with their buffers meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from mypy import nodes as n

from typedpallas.records import record
from typedpallas_mypy.handlers.body_counts import Op
from typedpallas_mypy.handlers.body_text import Region

type End = tuple[n.Var, Region] | None
type How = Literal["load", "store", "copy from", "copy to"]


@record(frozen=True)
class Flight:
    """A copy that was started. An end is none where it cannot be told, or lies on another device."""

    op: Op
    source: End
    target: End
    waited: bool = False
    """Whether somebody waited for it, while another copy was under way on the same semaphore."""


@record(frozen=True)
class Use:
    """A buffer that is used while a copy from or to it is under way."""

    how: How
    flight: Flight
    side: Literal["source", "target"]
    place: n.Node
    other: Flight | None = None
    """Another copy on the semaphore, which may have ended the wait for this one."""


@dataclass
class Flights:
    """The copies under way on one path."""

    all: list[Flight] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.all)

    def copied(self) -> Flights:
        """The same copies, to go on with."""
        return Flights(list(self.all))

    def forget(self, semaphores: Iterable[n.Var]) -> None:
        """Nothing is certain any more of what counts on these."""
        gone = set(semaphores)
        self.all = [flight for flight in self.all if flight.op.semaphore not in gone]

    # ---------------------------------------------------------------- starts and waits

    def start(self, op: Op, source: End, target: End) -> Use | None:
        """Begin a copy; what it disturbs, if anything."""
        found = None
        if target is not None:
            found = self.use(*target, "copy to", op.place)
        if found is None and source is not None:
            found = self.use(*source, "copy from", op.place)
        self.all.append(Flight(op, source, target))
        return found

    def wait(self, op: Op, *, nothing_left: bool) -> None:
        """A wait on a semaphore: the copy that it is for ends, unless another one's bytes may have ended the wait."""
        mine = [f for f in self.all if f.op.semaphore is op.semaphore and f.op.element.meets(op.element) != "no"]
        same = [f for f in mine if f.op.element == op.element and None not in op.element.axes]
        if nothing_left or len(same) < len(mine):
            self._drop(mine)
            return
        fitting = [f for f in same if not f.waited and f.op.amount == op.amount]
        call = op.copy.call if op.copy is not None else None
        chosen = [f for f in fitting if f.op.copy is not None and f.op.copy.call is call] or fitting
        if len(same) == 1 or not chosen:
            self._drop(same)
            return
        self.all = [replace(f, waited=True) if f is chosen[0] else f for f in self.all]
        if sum(f.waited for f in same) + 1 == len(same):
            self._drop([f for f in self.all if f.op.semaphore is op.semaphore and f.op.element == op.element])

    def _drop(self, gone: list[Flight]) -> None:
        self.all = [flight for flight in self.all if not any(flight is other for other in gone)]

    # ---------------------------------------------------------------- uses

    def use(self, buffer: n.Var, part: Region, how: How, place: n.Node) -> Use | None:
        """The first copy under way that a use of a buffer disturbs, or is disturbed by."""
        for flight in self.all:
            for end, side in ((flight.target, "target"), (flight.source, "source")):
                harmless = side == "source" and how in ("load", "copy from")
                if end is None or end[0] is not buffer or harmless or end[1].meets(part) != "yes":
                    continue
                other = self._another(flight) if flight.waited else None
                if not flight.waited or other is not None:
                    return Use(how, flight, "target" if side == "target" else "source", place, other)
        return None

    def _another(self, flight: Flight) -> Flight | None:
        """A copy on the same semaphore that nobody has waited for."""
        semaphore = flight.op.semaphore, flight.op.element
        rest = (f for f in self.all if (f.op.semaphore, f.op.element) == semaphore and not f.waited)
        return next(rest, None)
