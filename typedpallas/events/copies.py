"""Copies under way and the semaphores that count them."""

from __future__ import annotations

from typing import Literal

from typedpallas.dims import Size
from typedpallas.events.context import RefFact
from typedpallas.events.windows import Point
from typedpallas.records import record


@record(frozen=True, kw_only=True)
class Given:
    """A case in which something holds: an element's value, the way that a branch goes, or the turns of a loop."""

    what: Literal["number", "branch", "turns"]
    name: str
    """The element as messages write it, or the line of the branch or loop; empty where unknown."""
    value: int
    certain: bool = True
    """Whether every value that makes the kernel do what it does there is such a case."""


@record(frozen=True, kw_only=True)
class SemaphoreLeft:
    """A semaphore that is not zero when the kernel, or its scope, ends."""

    semaphore: str
    counts: Literal["bytes", "signals"]
    left: int | None
    """How many, at least; none if unknown."""
    source: str | None = None
    """From where the last copy on it goes; none where there is none."""
    target: str | None = None
    step: Point = ()
    """The grid step at which that copy was started."""
    sometimes: bool = False
    """Whether the copy is started under a condition on data."""
    given: Given | None = None
    """The case in which it is left; none if in every one."""
    shared: bool = False
    """Whether other devices signal it: then it is what they all leave on average, each running the same."""


@record(frozen=True, kw_only=True)
class SemaphoreStarved:
    """A wait for more than a semaphore can ever get."""

    semaphore: str
    counts: Literal["bytes", "signals"]
    wanted: Size | int | None
    """None if unknown, and still more than what is there."""
    there: Size | int | None
    """What was started, or signalled, and not yet waited for: at most; none if unknown."""
    step: Point = ()
    given: Given | None = None
    shared: bool = False


@record(frozen=True, kw_only=True)
class CopyInUse:
    """A buffer that is used while a copy from or to it is under way."""

    how: Literal["load", "store", "copy from", "copy to"]
    buffer: str
    side: Literal["source", "target"]
    """Which end of the copy the buffer is."""
    source: str
    target: str
    semaphore: str
    started: Point = ()
    """The grid step at which the copy was started."""
    step: Point = ()
    """The grid step of the use."""
    other: str | None = None
    """Another copy under way on the semaphore, which may have ended the wait for this one; none where nothing has
    waited for this one."""
    given: Given | None = None


@record(frozen=True, kw_only=True)
class Copied:
    """A copy that is started: what it takes and where it goes, each with the shape and type of what is moved."""

    source: RefFact
    target: RefFact
    remote: bool = False
    """Whether it goes to another device."""
    whole: bool = False
    """Whether both ends are whole buffers."""


@record(frozen=True, kw_only=True)
class SemaphoreMisuse:
    """A semaphore that is loaded, stored to or copied as if it held data, or used as one of another kind."""

    name: str
    kind: str
    """What it is, as messages write it: "a DMA semaphore", "2 regular semaphores", "a buffer in VMEM"."""
    use: str
    """What is done with it: "a load from it", "`pl.semaphore_wait`"."""
    wanted: str
    """What would be right there."""
