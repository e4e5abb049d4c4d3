"""Slices of refs and single elements of them."""

from collections.abc import Callable, Mapping
from typing import Literal

from typedpallas.records import record
from typedpallas.spaces import MemorySpace

type Known = Literal["yes", "no", "unknown"]


@record(frozen=True, kw_only=True)
class Step:
    """A step of the grid and the loops around a slice that surely comes, and the slice's start there."""

    at: Mapping[str, int]
    """The program ids and turns that it depends on, by the names that messages use."""
    start: int


@record(frozen=True, kw_only=True)
class SlicePart:
    """What a slice takes along one dim of the memory: ``size`` elements from ``start``, ``stride`` apart."""

    axis: int | None
    """The axis of the view that is indexed; none for a dim that the block squeezes away."""
    extent: int
    start: int | None
    """The first element, where it is one number."""
    size: int | None
    stride: int = 1
    squeezed: bool = False
    """Whether an integer takes the dim away."""
    multiple: int = 1
    """A number that divides every start; 0 if every start is 0."""
    reported: bool = True
    """Whether its bounds are looked at: a masked access may name what it never touches."""
    outside: Step | None = None
    """A step at which it leaves the dim; none if there is none, or it is not known to come."""
    only: int | None = None
    """The one value, of a number that the start is counted from and that data decides, with which it never leaves."""
    proves: Callable[[int], Known] = lambda divisor: "unknown"
    """Whether the compiler can tell that a number divides the start. Only for starts that are not one number."""
    breaks: Callable[[int], Step | None] = lambda divisor: None
    """A step at which a number does not divide the start."""

    sized: Callable[[int], Known] | None = None
    """Whether the compiler can tell that a number divides the size, where that is known only when the kernel runs."""

    def divisible(self, divisor: int) -> Known:
        """Whether the compiler takes the start for a multiple of ``divisor``."""
        if self.start is not None:
            return "no" if self.start % divisor else "yes"
        return self.proves(divisor)

    @property
    def whole(self) -> bool:
        """Whether it takes all of the dim."""
        return self.start == 0 and self.size == self.extent and self.stride == 1 and not self.squeezed


@record(frozen=True, kw_only=True)
class Slice:
    """One index of a ref, with a part for each dim of the memory that it addresses."""

    name: str
    op: Literal["load", "store", "copy", "view", "signal"]
    """What it is for; ``view`` is part of a ``ref.at`` that something else goes on from."""
    space: type[MemorySpace] | None
    dtype: str | None
    parts: tuple[SlicePart, ...]
    laid_out: bool = True
    """Whether ``parts`` are the dims of the memory as its tiles see them; else only bounds can be judged."""
    rows: int | None = None
    """The second-to-last extent that the memory's tiles are made for: of a window, the whole array's."""
    scratch: bool = False
    """Whether the kernel made the buffer: its tiles are the compiler's choice, not the program's layout."""
    fixed: bool = True
    """Whether the layout is known: an array that the program computes may be laid out otherwise."""
    picked: bool = False
    """Loads of one element: whether a select may keep it out of whatever comes of it."""


@record(frozen=True, kw_only=True)
class Scalar:
    """One element that is loaded from a ref and used, or stored to it."""

    name: str
    op: Literal["load", "store"]
    space: type[MemorySpace] | None
    dtype: str | None
    constant: bool = False
    """Stores: whether the value is a constant."""
