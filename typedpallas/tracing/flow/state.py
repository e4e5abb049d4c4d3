"""What a kernel's memory holds at one moment: buffers, semaphores, copies under way."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from typedpallas.tracing.flow import cells
from typedpallas.tracing.flow.cells import Cells
from typedpallas.tracing.flow.masks import Later
from typedpallas.tracing.flow.names import Name
from typedpallas.tracing.flow.numbers import Number, hull
from typedpallas.tracing.flow.regions import Region

MANY = 1 << 60
"""More than any count: no bound is known."""

type Ids = tuple[Number, ...]
"""A grid step: the id along each axis of the grid."""


@dataclass(frozen=True)
class Buffer:
    """Something that the kernel reaches through a ref. ``bits`` of one element; 0 for semaphores."""

    number: int
    name: str
    shape: tuple[int, ...]
    bits: int
    role: Literal["in", "out", "scratch", "scoped", "semaphore", "unknown"]


@dataclass(frozen=True)
class Origin:
    """Where garbage was loaded: the buffer, the equation, the step, and the first element of it."""

    buffer: Buffer
    eqn: Any
    ids: Ids
    element: tuple[int, ...] | None
    mixed: Any = None
    """The first operation that took it from its own position to others, such as a sum."""
    past: tuple[int, int, int] | None = None
    """Where a load itself goes past the buffer's end: the axis, its first element, and the one after its last."""
    made: Literal["truth", "whole"] | None = None
    """Whether a test, or a conversion to whole numbers, was made of it, so that it is no NaN any more."""


type Element = tuple[Buffer, int | None]
"""An array of semaphores and one of them; none where it is not known which."""

type View = tuple[Buffer | None, Region | None]


@dataclass(frozen=True)
class Flight:
    """A copy that was started and may not have ended.

    ``guards``: the conditions of unknown outcome under which it was started. ``bits``: what its semaphore gets of
    it. ``asked``: whether a wait has named it, which another copy may have ended.
    """

    eqn: Any = field(compare=False)
    semaphore: Element
    source: tuple[Buffer, Region | None]
    target: tuple[Buffer, Region | None]
    guards: frozenset[int]
    ids: Ids
    bits: int | None = None
    asked: bool = False

    @property
    def kind(self) -> tuple[object, ...]:
        """What two copies have in common that may be one on two paths."""
        (sem, element), ends = self.semaphore, (self.source[0].number, self.target[0].number)
        return sem.number, element, self.guards, self.bits, ends

    def join(self, other: "Flight") -> "Flight | None":
        """What is known of a copy that is one of these on one of two paths each; none where they differ in kind."""
        if self == other:
            return self
        if self.kind != other.kind:
            return None
        source, target = _hull(self.source, other.source), _hull(self.target, other.target)
        if source is None or target is None:
            return None
        ids = tuple(hull(a, b) for a, b in zip(self.ids, other.ids, strict=True))
        return replace(self, source=source, target=target, ids=ids, asked=self.asked and other.asked)


def _hull(left: tuple[Buffer, Region | None], right: tuple[Buffer, Region | None]) -> Any:
    """Elements of a buffer that hold those of both; none where they are not of one shape."""
    if left == right:
        return left
    if left[0] != right[0] or left[1] is None or right[1] is None:
        return None
    region = left[1].join(right[1])
    return None if region is None else (left[0], region)


@dataclass(frozen=True)
class Count:
    """What a semaphore's element holds or will hold when all copies have ended: at least and at most.

    ``free``: others signal it too. Then it is what the device signals, here or elsewhere, less what it waits for,
    and may be negative: since all devices run the same, that is what theirs amount to on average.
    """

    low: int = 0
    high: int = 0
    free: bool = False

    def join(self, other: "Count") -> "Count":
        """Either of two paths."""
        if self == other:
            return self
        return Count(min(self.low, other.low), max(self.high, other.high), self.free or other.free)

    @property
    def least(self) -> int:
        """No semaphore of its kind counts less."""
        return -MANY if self.free else 0

    def forgotten(self) -> "Count":
        """The same after anything may have happened."""
        return Count(self.least, MANY, self.free)


@dataclass(frozen=True)
class Bound:
    """What a variable of a jaxpr stands for: a whole number, a value with garbage in it, or a buffer."""

    number: Number = None
    cells: Cells = cells.MEANT
    origin: Origin | None = None
    buffer: Buffer | None = None
    known: Later | None = None
    """Reads the elements of an array of whole numbers or truth values, where they follow from program ids."""
    name: Name | None = None
    """Of a number that is not known, where names are given."""

    def join(self, other: "Bound") -> "Bound":
        """Either of two."""
        if self == other:
            return self if self.known is other.known else replace(self, known=None)
        held = cells.join(self.cells, other.cells) if _fit(self.cells, other.cells) else cells.MAYBE
        buffer = self.buffer if self.buffer == other.buffer else None
        name = self.name if self.name == other.name else None
        return Bound(hull(self.number, other.number), held, self.origin or other.origin, buffer, name=name)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Bound)
            and self.number == other.number
            and self.buffer == other.buffer
            and self.name == other.name
            and cells.equal(self.cells, other.cells)
        )

    __hash__ = None  # type: ignore[assignment]


def _fit(left: Cells, right: Cells) -> bool:
    return cells.alike(left, right)


PLAIN = Bound()
"""Meant, and no number that is followed."""
DOUBTFUL = Bound(cells=cells.MAYBE)
"""Perhaps garbage, and no number that is followed."""


@dataclass
class State:
    """Cells of each buffer, where spoiled ones got their garbage, counts of each semaphore, copies under way."""

    cells: dict[int, Cells] = field(default_factory=dict)
    origins: dict[int, Origin] = field(default_factory=dict)
    counts: dict[int, tuple[Count, ...]] = field(default_factory=dict)
    flights: tuple[Flight, ...] = ()

    def copy(self) -> "State":
        """For the other path."""
        return State(dict(self.cells), dict(self.origins), dict(self.counts), self.flights)

    def join(self, other: "State") -> "State":
        """What holds after one of two paths. What only one of them has is out of scope."""
        return State(
            {k: cells.join(v, other.cells[k]) for k, v in self.cells.items() if k in other.cells},
            {**other.origins, **self.origins},
            {k: _joined(v, other.counts[k]) for k, v in self.counts.items() if k in other.counts},
            self.flights if self.flights == other.flights else tuple(_in_both(self.flights, other.flights)),
        )

    def same(self, other: "State") -> bool:
        """Whether nothing has changed."""
        return (
            self.cells.keys() == other.cells.keys()
            and self.counts == other.counts
            and self.flights == other.flights
            and all(cells.equal(v, other.cells[k]) for k, v in self.cells.items())
        )

    def widen(self) -> "State":
        """Everything that a path may change, forgotten."""
        return State(
            {k: cells.MAYBE for k in self.cells},
            {},
            {k: tuple(held.forgotten() for held in v) for k, v in self.counts.items()},
            (),
        )


def _in_both(left: Sequence[Flight], right: Sequence[Flight]) -> Iterator[Flight]:
    """The copies under way on both of two paths, each as what it is on either."""
    same = 0
    while same < min(len(left), len(right)) and left[same] == right[same]:
        yield left[same]
        same += 1
    rest: dict[Any, list[Flight]] = {}
    for flight in right[same:]:
        rest.setdefault(flight.kind, []).append(flight)
    for flight in left[same:]:
        others = rest.get(flight.kind, [])
        fits = [(other != flight, k) for k, other in enumerate(others) if flight.join(other) is not None]
        joined = flight.join(others.pop(min(fits)[1])) if fits else None
        if joined is not None:
            yield joined


def _joined(left: tuple[Count, ...], right: tuple[Count, ...]) -> tuple[Count, ...]:
    return left if left == right else tuple(a.join(b) for a, b in zip(left, right, strict=True))


def widened(own: State, before: State) -> State:
    """``own`` with each count whose bounds moved since ``before`` pushed to where it cannot move further."""
    counts = {
        key: tuple(
            Count(a.low if a.low >= b.low else a.least, a.high if a.high <= b.high else MANY, a.free)
            for a, b in zip(found, before.counts.get(key, found), strict=True)
        )
        for key, found in own.counts.items()
    }
    return State(own.cells, own.origins, counts, own.flights)
