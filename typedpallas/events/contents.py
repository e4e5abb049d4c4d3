"""Garbage that reaches a result."""

from __future__ import annotations

from typing import Literal

from typedpallas.events.windows import Point
from typedpallas.records import record


@record(frozen=True, kw_only=True)
class GarbageResult:
    """Elements of a kernel's result that certainly hold what memory happened to hold."""

    output: str
    buffer: str | None
    """The buffer that was read before anything was stored to it; none if the result's elements are never stored."""
    role: Literal["scratch", "output"] = "output"
    step: Point = ()
    """The grid step of that read."""
    element: Point | None = None
    """The first element that was read so; none where that is not known."""
    block: Point = ()
    """The index of the result's block."""
    result_element: Point = ()
    """The first element of that block which is garbage."""
    last_step: Point = ()
    """The last grid step that could have stored to it."""
    everything: bool = False
    """Whether all of the result is garbage."""
    whole_result: bool | None = None
    """As in `IndexMap`."""
    stays_along: tuple[int, ...] = ()
    """The grid axes along which the result's block stays."""
    by_any: bool = False
    """Whether all programs of a GPU's grid share the result's block, and none of them stores to the element."""
    split_axis: int | None = None
    """The parallel grid axis whose later steps run on another core of the chip; none if one core does it all."""


@record(frozen=True, kw_only=True)
class PaddedValue:
    """Elements past an array's end that certainly reach elements of a result, which are within its array."""

    name: str
    """The operand they come from."""
    axis: int
    extent: int
    """The array's elements along that axis."""
    loaded: tuple[int, int]
    """The elements that the last block or window takes: from, to (exclusive)."""
    by: Literal["block", "load"] = "block"
    """Whether a block takes them, or a load that goes past the end of a whole array."""
    primitive: str | None
    """What took them from their own positions to others, such as a sum; none if nothing did."""
    step: Point = ()
    """The grid step that loads them."""
    output: str = ""
    block: Point = ()
    """The index of the result's block."""
    result_element: Point = ()
    """The first element of that block which is made of them."""
    everything: bool = False
    """Whether all of the result is garbage."""
    whole_result: bool | None = None
    """As in `IndexMap`."""


@record(frozen=True, kw_only=True)
class NeverStored:
    """A buffer to which nothing in a whole kernel ever stores, seen without knowing its grid."""

    name: str
    kernel: str
    read: bool
    """Whether the kernel loads from it; else it is a result that the kernel does not touch."""
    updated: bool = False
    """Whether it is added to in place, which reads it first."""
