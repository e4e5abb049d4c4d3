"""What is remembered while a GPU kernel is followed: threads and what they know, barriers, and claims.

A *thread* is a warpgroup or a warp. Each counts what it does, and knows of every count how far it has certainly
come: an access is ordered before another exactly where the thread of the second knows the count of the first. A
barrier hands on what those who arrive know to those who wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from typedpallas.tracing.warpgroups.views import Part

type Stamp = tuple[tuple[Any, ...], int]
"""A count, and how far it must have come. Counts: ``("own", thread)`` loads and stores; ``("committed", thread)``
those that copies and products may see; ``("barrier", number, element)`` phases; ``("product", thread)``,
``("copy out", thread)``, ``("copy in", thread)``, ``("tensor load", thread)``, ``("tensor store", thread)`` what runs
beside the thread and ends in order; ``("begun", kind, thread)`` what of these was begun."""
type How = Literal["load", "store", "copy to", "copy from", "product", "tensor load", "tensor store"]

BESIDE: frozenset[How] = frozenset(("copy to", "copy from", "product"))
"""Accesses by other hardware than the threads: they see stores only when those are committed."""


class NotFollowed(Exception):
    """The kernel does something of which there is no model, or is too long to be followed to its end."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When something happens: the thread, the turns of the loops around it, the grid point."""

    thread: str
    turns: tuple[int, ...]
    point: tuple[int, ...]


@dataclass(eq=False, slots=True)
class Buffer:
    """A ref: data or barriers. ``records``: what may still be under way, or matter to a later access."""

    name: str
    kind: str
    """``smem``, ``tmem``, ``acc``, ``barrier``, or ``elsewhere``."""
    shape: tuple[int, ...] = ()
    records: list["Record"] = field(default_factory=list)
    storers: dict[int, set[int]] = field(default_factory=dict)
    """By equation that stores: the threads that have run it."""
    barriers: list["Barrier"] = field(default_factory=list)
    value: int | None = None
    """The whole scalar in it, where that is known."""
    contents: Any = None
    """The whole numbers in it, as an array, where those are known."""


@dataclass(eq=False, slots=True)
class Record:
    """One access. ``barrier``: what a copy into shared memory arrives at."""

    how: How
    writes: bool
    part: Part
    stamp: Stamp
    thread: "Thread"
    moment: Moment
    eqn: Any
    barrier: "Barrier | None" = None


@dataclass(eq=False, slots=True)
class Barrier:
    """One barrier: how many phases are complete, what each hands on, and who had to do with it."""

    name: str
    number: tuple[int, int]
    arrivals: int
    completed: int = 0
    arrived: int = 0
    total: int = 0
    pending: dict[Any, int] = field(default_factory=dict)
    phases: list[dict[Any, int]] = field(default_factory=list)
    arrivers: set[int] = field(default_factory=set)
    waiters: dict[int, int] = field(default_factory=dict)
    """By thread: phases waited for."""
    copies: bool = False
    """Whether copies arrive here."""

    def arrive(self, knows: dict[Any, int]) -> None:
        """One arrival, by somebody who knows this."""
        _join(self.pending, knows)
        self.arrived, self.total = self.arrived + 1, self.total + 1
        if self.arrived < self.arrivals:
            return
        self.completed, self.arrived = self.completed + 1, 0
        if self.phases:
            _join(self.pending, self.phases[-1])
        self.pending["barrier", *self.number] = self.completed
        self.phases.append(self.pending)
        self.pending = {}

    @property
    def lost(self) -> bool:
        """Whether more phases ended than anybody waited for, by more than the one that may lie ahead."""
        return bool(self.waiters) and self.completed >= max(self.waiters.values()) + 2


def _join(into: dict[Any, int], more: dict[Any, int]) -> None:
    for count, value in more.items():
        if into.get(count, 0) < value:
            into[count] = value


@dataclass(eq=False)
class Thread:
    """A warpgroup, or a warp of one. ``knows``: of each count, how far it has certainly come."""

    number: int
    name: str
    coordinates: dict[Any, int | None]
    point: tuple[int, ...] = ()
    knows: dict[Any, int] = field(default_factory=dict)
    turns: list[int] = field(default_factory=list)
    waits: dict[tuple[int, int], int] = field(default_factory=dict)
    """By barrier: phases that were waited for."""
    drained: int = 0
    """Groups of copies out of shared memory that were closed when it last waited for any."""
    visits: dict[Any, int] = field(default_factory=dict)
    issued: dict[str, int] = field(default_factory=dict)
    """By kind of operation that runs beside: how many were begun."""
    committed: int = 0
    """Groups of copies out of shared memory that are closed."""
    blocked: "tuple[Barrier, Any] | None" = None
    done: bool = False
    warps: "list[Thread]" = field(default_factory=list)
    walk: "Iterator[None] | None" = None

    def learn(self, more: dict[Any, int]) -> None:
        """What others know is known here from now on."""
        _join(self.knows, more)

    def has(self, stamp: Stamp) -> bool:
        """Whether something certainly lies in the past."""
        return self.knows.get(stamp[0], 0) >= stamp[1]

    def step(self) -> Stamp:
        """The stamp of one more access of its own."""
        count = ("own", self.number)
        value = self.knows[count] = self.knows.get(count, 0) + 1
        return count, value

    def begin(self, kind: str) -> Stamp:
        """The stamp of one more operation that runs beside."""
        self.issued[kind] = self.issued.get(kind, 0) + 1
        self.knows["begun", kind, self.number] = self.issued[kind]
        return (kind, self.number), self.issued[kind]

    def await_all_but(self, kind: str, count: int) -> None:
        """At most so many operations of a kind still run."""
        self.learn({(kind, self.number): self.issued.get(kind, 0) - count})

    def commit(self) -> None:
        """Stores that it knows of are visible to copies and products from now on."""
        self.knows.update(
            {("committed", count[1]): value for count, value in self.knows.items() if count[0] == "own"}
        )

    def moment(self) -> Moment:
        """Now."""
        return Moment(self.name, tuple(self.turns), self.point)


@dataclass(frozen=True, slots=True)
class InUse:
    """An access to elements that something unfinished, or unordered, still uses.

    ``ended``: whether the thread that began that has waited for its end, and only has not handed that on.
    """

    buffer: Buffer
    how: How
    eqn: Any
    thread: Thread
    moment: Moment
    record: Record
    ended: bool


@dataclass(frozen=True, slots=True)
class Uncommitted:
    """A copy or a product reads what a thread stored and did not commit."""

    buffer: Buffer
    how: How
    eqn: Any
    moment: Moment
    record: Record


@dataclass(frozen=True, slots=True)
class Starved:
    """Nothing goes on any more, and a thread waits here."""

    barrier: Barrier
    eqn: Any
    moment: Moment


@dataclass(frozen=True, slots=True)
class Left:
    """A copy that nobody waits for before the kernel ends."""

    buffer: Buffer
    record: Record


type Claim = InUse | Uncommitted | Starved | Left
