"""Operands' blocks, their index maps over the grid, and arrays that several devices share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from typedpallas.dims import Size
from typedpallas.events.context import Shape
from typedpallas.records import record
from typedpallas.spaces import MemorySpace


@record(frozen=True, kw_only=True)
class Window:
    """The block of one operand. Sizes in elements; a squeezed dim of the block is ``"squeezed"``."""

    name: str
    role: Literal["in", "out"]
    space: type[MemorySpace] | None
    dtype: str | None
    block: tuple[Size | Literal["squeezed"] | None, ...]
    array: Shape
    ragged: frozenset[int] | None = frozenset()
    """The axes on which a partial last block was asked for; none where it can't be asked for (plain Pallas)."""
    block_names: tuple[str | None, ...] = ()
    """The dim that gives each block size, for messages."""
    stored_whole: bool | None = None
    """Outputs: whether the kernel surely stores the whole block without a mask; none where that was not looked at."""
    kinds: tuple[Literal["plain", "element", "bounded", "squeezed"], ...] = ()
    """How the map addresses each axis: by block, by element, or by a slice that it returns; empty if not known."""
    buffers: int | None = None
    """How many buffers the launch asks for, where it asks and the block is not the whole array all along."""


type Point = tuple[int, ...]
"""A point of the grid, or a block index."""


@record(frozen=True, kw_only=True)
class Visits:
    """The blocks that an index map visits over the grid; the last four say nothing of an input's map."""

    complete: bool
    """Whether every grid point was followed; if not, what was found is true, and what was not may still be there."""
    outside: tuple[Point, Point, int] | None = None
    """A grid point, its block index, and the axis on which that block lies wholly outside of the array."""
    blocks: Point = ()
    """How many blocks the array has along each axis."""
    missing: Point | None = None
    """The first block that no grid point visits."""
    missing_count: int = 0
    shared: tuple[Point, Point, Point, int] | None = None
    """Two grid points that may run at once, the block that both visit, and a grid axis on which they differ."""
    returns: tuple[Point, Point, Point] | None = None
    """A block, the grid point after which it was left, and the one at which it comes back."""


@record(frozen=True, kw_only=True)
class IndexMap:
    """The index map of one operand over the grid. Results are block indices."""

    name: str
    role: Literal["in", "out"]
    grid: Shape | None
    parameters: int
    """How many arguments the map takes."""
    results: int | None
    """How many block indices it returns."""
    block: tuple[Size | Literal["squeezed"] | None, ...]
    array: Shape
    affine: tuple[Size | None, ...] | None = None
    """Each result over the names ``g0, g1, ...`` of the grid ids, where it is such a polynomial."""
    at: Callable[[tuple[int, ...]], tuple[int, ...]] | None = None
    """The map at one grid point, where it can be evaluated."""
    semantics: tuple[Literal["parallel", "arbitrary"], ...] | None = None
    """How the grid axes run, where the launch says so."""
    prefetched: int = 0
    """How many scalar-prefetch operands the map takes after the grid ids."""
    reads: tuple[str, ...] = ()
    """The scalar-prefetch operands that its results are read from."""
    entries: tuple[tuple[str, int], ...] = ()
    """The entries that lead to the first block out of range, ``table[3]``, with what they hold."""
    in_range: bool = False
    """Whether it is sure to stay within the array, where only what such operands hold tells where it goes."""
    alike: tuple[str, ...] = ()
    """The kernel's other operands whose maps read such operands; they have no event of their own."""
    visits: Visits | None = None
    """Where it went over the whole grid; none if that was not followed."""
    guarded: bool = False
    """Whether the kernel masks or skips its accesses, so that a block out of range may go unused."""
    aliased: bool = False
    """Outputs: whether an input's memory is reused, so that what is not written keeps its old content."""
    whole_result: bool | None = None
    """Outputs: true if all of the result is used, false if none of it is; none where that is not known."""
    space: type[MemorySpace] | None = None
    """Where the blocks are, if what is said of them holds on that space's machine alone."""
    collides: Literal["yes", "no", "unknown"] = "unknown"
    """Outputs: whether programs that share a block store different values to the same elements of it."""
    keeps_stale: Literal["yes", "no", "unknown"] = "unknown"
    """Outputs: whether the last visit of a block that comes back builds on what the block held before."""


@record(frozen=True, kw_only=True)
class GridAxis:
    """A named grid axis of a launch and the output that does or does not depend on it."""

    axis: str
    output: str
    in_output: bool
    declared_parallel: bool
    trailing: bool
    """Whether only such axes follow it in the grid."""


@record(frozen=True, kw_only=True)
class IdleAxis:
    """A grid axis, as the kernel counts them, along which every step does the same."""

    kernel: str
    axis: int
    extent: int


@record(frozen=True, kw_only=True)
class Alias:
    """An input and an output that a launch says share a buffer; types as messages write them."""

    input: int
    output: int
    input_type: str
    output_type: str


@record(frozen=True, kw_only=True)
class Shard:
    """An axis of an array that a sharding cuts into parts."""

    what: str
    """Which array, for messages."""
    axis: int
    size: int
    parts: int
    mesh_axes: tuple[str, ...] = ()
    """The axes of the mesh that cut it, where known."""


@record(frozen=True, kw_only=True)
class ShardedOperand:
    """An argument of the program that lies on several devices and reaches a kernel outside of `jax.shard_map`."""

    kernel: str
    name: str
    spec: str
    """How it is spread, as JAX writes it."""
    devices: int
