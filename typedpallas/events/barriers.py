"""Barriers of a GPU's shared memory, and what runs beside its warpgroups: copies and products."""

from __future__ import annotations

from typing import Literal

from typedpallas.events.windows import Point
from typedpallas.records import record

type SharedUse = Literal["load", "store", "copy to", "copy from", "product", "tensor load", "tensor store"]
"""What is done with shared or tensor memory, or with an accumulator. Copies go to it or from it; a product reads its
operands and writes its accumulator."""


@record(frozen=True, kw_only=True)
class When:
    """Who does something and when. ``turns``: of the loops around it, outermost first; ``block``: of the grid."""

    thread: str
    turns: Point = ()
    block: Point = ()


@record(frozen=True, kw_only=True)
class BarrierStarved:
    """A wait for a phase of a barrier that never ends, though everybody has gone as far as they can."""

    barrier: str
    arrivals: int
    """How many end a phase."""
    arrived: int
    """In the phase that is waited for."""
    completed: int
    """Phases that ended before."""
    copies: bool
    """Whether copies arrive at it."""
    when: When


@record(frozen=True, kw_only=True)
class BarrierOverrun:
    """A barrier whose phases end faster than they are waited for, so that a wait ends too early."""

    barrier: str
    arrivals: int
    """How many end a phase."""
    total: int
    """Arrivals in all."""
    waits: int
    """Waits in all by whoever waits most often."""
    buffer: str
    use: SharedUse
    """What is done with ``buffer`` too early."""
    when: When


@record(frozen=True, kw_only=True)
class SharedInUse:
    """Memory, or an accumulator, that is used while something else still uses it, or might."""

    buffer: str
    use: SharedUse
    when: When
    other: SharedUse
    """What uses it still."""
    began: When
    barrier: str | None = None
    """At which ``other``, a copy into shared memory, arrives."""


@record(frozen=True, kw_only=True)
class StoreUncommitted:
    """Shared memory that a copy or a product uses after a store that may not be visible to it."""

    buffer: str
    use: SharedUse
    handed_on: bool
    """Whether another warpgroup stored it, so that a barrier lies between the two."""
    stored: When
    when: When


@record(frozen=True, kw_only=True)
class CopyLeft:
    """A copy that nobody waits for before the kernel ends."""

    buffer: str
    direction: Literal["copy to", "copy from"]
    barrier: str | None
    when: When
