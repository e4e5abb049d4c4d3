"""What a Mosaic GPU kernel asks of a GPU's units: the matrix unit, the copy engine, the launch. Sizes in elements."""

from __future__ import annotations

from typing import Literal

from typedpallas.events.slices import SlicePart
from typedpallas.records import record
from typedpallas.spaces import MemorySpace

type Extent = tuple[int | None, ...]
"""A shape as far as it is known."""


@record(frozen=True, kw_only=True)
class MatrixOperand:
    """An operand of a matrix product, as the product sees it: transposed where the kernel says so."""

    name: str
    space: type[MemorySpace] | None
    dtype: str | None
    shape: Extent | None
    transposed: bool = False
    """Whether memory has its last two dims the other way round."""
    tile: tuple[int, ...] | None = None
    """The tiling that the kernel asks for; none where it leaves that to the compiler."""
    swizzle: int | None = None
    """Bytes; as `tile`."""
    part: bool = False
    """Whether it is a part of a buffer, or the buffer has other readers that the compiler lays it out for."""


@record(frozen=True, kw_only=True)
class MatrixProduct:
    """``acc += a @ b`` by an instruction of the matrix unit. Shapes: ``(m, k) @ (k, n) -> (m, n)``."""

    instruction: Literal["wgmma", "tcgen05_mma"]
    a: MatrixOperand
    b: MatrixOperand
    acc: MatrixOperand
    collective: bool = False
    """Whether two blocks of a cluster compute it together."""
    plain: bool = True
    """Whether it is nothing but a product: no scales, nothing sparse."""

    @property
    def extents(self) -> tuple[int | None, int | None, int | None]:
        """``(m, n, k)`` as far as known."""
        m, k = self.a.shape if self.a.shape is not None and len(self.a.shape) == 2 else (None, None)
        other, n = self.b.shape if self.b.shape is not None and len(self.b.shape) == 2 else (None, None)
        return m, n, k if k is not None else other


@record(frozen=True, kw_only=True)
class BulkCopy:
    """An asynchronous copy between global and shared memory."""

    name: str
    """The array in global memory."""
    shared: str
    """The buffer in shared memory."""
    array: Extent
    """The whole array."""
    box: Extent
    """What is copied: one for each dim of the array."""
    squeezed: tuple[bool, ...]
    """The dims of the array that the copy's other side does not have."""
    bits: int
    """Of one element."""
    tile: tuple[int, ...] | None = None
    """The tiling of the buffer, of its last dims; none where it has none or where that is up to the compiler."""
    tiling: Literal["given", "none", "inferred", "unknown"] = "given"
    """Whether the kernel gives it, there is none, a product asks for one, or the compiler may choose one."""
    plain: bool = False
    """Whether the last dims of both sides, as the copy sees them, are those that the tiling cuts."""
    ways: tuple[tuple[SlicePart, ...], ...] = ()
    """A part for each dim of the array, for each way to come to the copy; none where it is not indexed just once."""
    outward: bool = False
    """Whether it goes to global memory."""
    barrier: bool = True
    """Whether it arrives at a barrier; copies to global memory never do."""
    promised: bool = False
    """Whether the kernel promises that the copy stays within the array."""


@record(frozen=True, kw_only=True)
class BlockLaunch:
    """How a Mosaic GPU kernel is launched."""

    kernel: str
    warpgroups: int
    """128 threads each."""
    cluster: tuple[int, ...]
    grid: tuple[int, ...]
    names: tuple[str, ...] = ()
    """Of the grid's axes."""


@record(frozen=True, kw_only=True)
class RegisterUse:
    """The accumulator of a kernel that leaves a thread the fewest registers."""

    kernel: str
    accumulator: tuple[int, int]
    """Rows and columns."""
    registers: int
    """Of one thread, that it takes."""
    limit: int
    """Registers that a thread may have there."""
    limit_from: str
    """Where the limit comes from, for messages."""


@record(frozen=True, kw_only=True)
class BarrierGroup:
    """The barriers of one `plgpu.Barrier`."""

    name: str
    count: int


@record(frozen=True, kw_only=True)
class RegisterLoad:
    """A vector that a warpgroup loads, in a kernel that names no layout and has no matrix products."""

    name: str
    """Of the ref."""
    shape: tuple[int, ...]


@record(frozen=True, kw_only=True)
class WarpReduction:
    """A reduction across the warps of a warpgroup, in a kernel with several warpgroups."""

    what: str
    """The operation, as JAX calls it."""
    operand: str
    """Its type, as messages write it."""
    warpgroups: int
    ordered: bool
    """Whether barriers or semaphores may keep the warpgroups from doing it at the same time."""


@record(frozen=True, kw_only=True)
class StoredInput:
    """A store to an array that is an input of a GPU kernel and no output, and an argument of the whole function."""

    name: str
    argument: str
    """What the function calls it; empty where unknown."""


@record(frozen=True, kw_only=True)
class BufferLayout:
    """The tiling and the swizzle that a kernel asks for a buffer in shared memory."""

    shape: tuple[int, ...]
    dtype: str
    tile: tuple[int, ...] | None
    swizzle: int | None
    """Bytes."""
