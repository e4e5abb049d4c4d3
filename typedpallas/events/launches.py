"""Launches and their calls: patterns, parameters, arguments, sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from typedpallas.dims import Size
from typedpallas.events.context import Backend, RefFact, Shape
from typedpallas.records import record
from typedpallas.spaces import MemorySpace

if TYPE_CHECKING:
    from typedpallas.types import Direction


@record(frozen=True, kw_only=True)
class BuiltFor:
    """The backend that a kernel goes through."""

    kernel: str
    backend: Backend
    source: str | None
    """What names it, for messages; none where it is the machine's usual one."""
    lowered: bool | None = None
    """Whether the installed JAX lowers such a call through it at all; none if that was not asked."""


@record(frozen=True, kw_only=True)
class LaunchText:
    """The pattern and the grid axes of a launch, as written."""

    pattern: str
    grid: str


@record(frozen=True, kw_only=True)
class Operands:
    """The refs that a kernel takes, in order, and how many a launch hands it; none where unknown."""

    kernel: str
    parameters: tuple[tuple[str, Direction | None], ...]
    inputs: int | None
    outputs: int | None
    scratch: int | None = None
    source: str = "the pattern"
    """What counts them, for messages."""


@record(frozen=True, kw_only=True)
class Argument:
    """What a launch gives to a kernel's parameter, a call to a helper's, or a helper back. ``ref``: as annotated."""

    kernel: str
    ref: RefFact
    source: str
    """What gives it, for messages: the pattern's operand, a block spec, an array."""
    space: type[MemorySpace] | None = None
    dtype: str | None = None
    block: Shape | None = None
    """What the kernel sees, squeezed dims left out. Elements."""
    what: Literal["block", "array", "argument", "result"] = "block"
    """Whether ``block`` is what the kernel sees, the whole array beside the pattern's own numbers, what a call of a
    helper passes, or what a helper gives back."""
    windowed: bool | None = None
    """Whether it moves with the grid."""
    sizes: Mapping[str, Size] = field(default_factory=dict)
    """What the annotation's dims are known to be."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where these sizes come from, for messages."""


@record(frozen=True, kw_only=True)
class DimSize:
    """A size that something gives to a dim."""

    dim: str
    size: Size
    origin: str
    """Where it comes from, for messages: "`BK=64` in this call"."""
    multiple: int = 1
    """What the bound of the dim promises to divide it."""
    earlier: tuple[Size, str] | None = None
    """The size that the dim has already, and its origin."""


@record(frozen=True, kw_only=True)
class CallSizes:
    """The sizes that a call of a launch may name, needs, and names."""

    launch: str
    known: tuple[str, ...]
    needed: tuple[str, ...]
    given: tuple[str, ...]
    complete: bool = True
    """Whether ``given`` is all of them (a call with ``**sizes`` shows only some)."""


@record(frozen=True, kw_only=True)
class KernelReturns:
    """A kernel that gives back values: as many, none where unknown."""

    kernel: str
    count: int | None = None


@record(frozen=True, kw_only=True)
class UnusedOperand:
    """An operand that a kernel is handed and never looks at."""

    kernel: str
    name: str
    kind: str
    """As messages write it."""
    space: type[MemorySpace] | None = None
