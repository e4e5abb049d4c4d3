"""What a walk through a kernel is certain of."""

from dataclasses import dataclass, field
from typing import Any, Literal

from typedpallas.tracing.flow.state import Buffer, Flight, Ids, Origin


@dataclass(frozen=True)
class Left:
    """A semaphore that is not zero when it goes out of scope. ``start``: the last copy on it; none if signalled."""

    semaphore: Buffer
    element: int
    count: int
    """Bits of copies, or signals, that nobody waits for: at least so many."""
    start: Flight | None
    eqn: Any = field(compare=False)
    sometimes: bool = False
    """Whether the copy depends on data; where it is started, nothing waits for it."""
    shared: bool = False
    """Whether other devices signal it."""


@dataclass(frozen=True)
class Hang:
    """A wait for more than was started, or signalled. Bits, or signals."""

    semaphore: Buffer
    element: int | None
    wanted: int
    there: int
    ids: Ids
    eqn: Any = field(compare=False)
    shared: bool = False


@dataclass(frozen=True)
class Early:
    """A buffer that is used while a copy to or from it is under way."""

    how: Literal["load", "store", "copy from", "copy to"]
    buffer: Buffer
    side: Literal["source", "target"]
    flight: Flight
    ids: Ids
    eqn: Any = field(compare=False)
    other: Flight | None = None
    """The copy that may have ended the wait for this one; none where nothing has waited for it."""


@dataclass(frozen=True)
class Garbage:
    """Elements of an output that hold garbage when its block is written back."""

    output: Buffer
    block: Ids
    """The block's index."""
    ids: Ids
    """The last step that could have written it."""
    element: tuple[int, ...]
    """The first such element of the block."""
    origin: Origin | None
    """Where the garbage was loaded; none if nothing was ever stored there."""
    by_any: bool = False
    """On a GPU: whether what any program of the grid stores was taken into account."""


type Claim = Left | Hang | Early | Garbage
