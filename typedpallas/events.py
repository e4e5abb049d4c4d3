"""What a checker saw in a kernel: the one vocabulary between the front ends and the rules.

The mypy plugin builds these with symbolic sizes, the trace checker with numbers; a rule cannot tell which.
None always means "unknown", never "nothing".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from typedpallas.chips import Machine, Target
from typedpallas.dims import Facts, Size
from typedpallas.events_slices import Scalar, Slice
from typedpallas.records import record
from typedpallas.spaces import MemorySpace

if TYPE_CHECKING:
    from typedpallas.types import Direction

type Shape = tuple[Size | None, ...]
type Backend = Literal["mosaic_tpu", "mosaic_gpu", "triton"]


@record(frozen=True, kw_only=True)
class Context:
    """What holds around an event. Without a backend or target only rules that hold everywhere speak."""

    facts: Facts = field(default_factory=Facts)
    backend: Backend | None = None
    target: Target | None = None

    @property
    def machine(self) -> Machine | None:
        """The kind of machine, as far as target or backend tell."""
        if self.target is not None:
            return self.target.machine
        if self.backend is None:
            return None
        return "tpu" if self.backend == "mosaic_tpu" else "gpu"


@record(frozen=True, kw_only=True)
class RefFact:
    """A buffer that the kernel was given or made. ``shape`` in elements; ``dtype`` is JAX's name."""

    name: str
    space: type[MemorySpace] | None
    dtype: str | None
    shape: Shape | None
    direction: Direction | None = None


@record(frozen=True, kw_only=True)
class Access:
    """One load from or store to a ref. ``moved`` is the shape that the index selects, in elements."""

    op: Literal["load", "store"]
    ref: RefFact
    moved: Shape | None
    value_shape: Shape | None = None
    """Stores: the shape of the value."""
    value_dtype: str | None = None
    """Stores: the value's element type; none if unknown or a Python scalar."""


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
    collides: Literal["yes", "no", "unknown"] = "unknown"
    """Outputs: whether programs that share a block store different values to the same elements of it."""
    keeps_stale: Literal["yes", "no", "unknown"] = "unknown"
    """Outputs: whether the last visit of a block that comes back builds on what the block held before."""


type Point = tuple[int, ...]
"""A point of the grid, or a block index."""


@record(frozen=True, kw_only=True)
class Visits:
    """The blocks that an index map visits over the grid."""

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
class GridAxis:
    """A named grid axis of a launch and the output that does or does not depend on it."""

    axis: str
    output: str
    in_output: bool
    declared_parallel: bool
    trailing: bool
    """Whether only such axes follow it in the grid."""


@record(frozen=True, kw_only=True)
class Operation:
    """A function that JAX's abstract evaluation refused, in JAX's words."""

    function: str
    operands: tuple[str, ...]
    """The operands' types, as messages write them."""
    refusal: str
    kind: Literal["shape", "dtype"]


@record(frozen=True, kw_only=True)
class Value:
    """A value that a kernel works with; ``primitive`` says what makes it: a grid bound, an operand, an index map."""

    primitive: str
    shape: Shape
    dtype: str


@record(frozen=True, kw_only=True)
class Placement:
    """A space that an operand or a scratch buffer asks for."""

    name: str
    space: type[MemorySpace]
    role: Literal["operand", "scratch"] = "scratch"


@record(frozen=True, kw_only=True)
class ArrayType:
    """Shape in elements and JAX's name of the element type."""

    shape: Shape
    dtype: str


@record(frozen=True, kw_only=True)
class Applied:
    """One operation that the kernel's trace has, on arrays (refs left out)."""

    primitive: str
    operands: tuple[ArrayType, ...]
    results: tuple[ArrayType, ...]
    parameters: Mapping[str, object] = field(default_factory=dict)
    """JAX's, as it names them; only what a rule reads needs to be there."""
    lowered: bool | None = None
    """Whether the backend's lowering knows the operation at all; none if that was not asked."""
    on_data: bool | None = None
    """Whether an operand comes from memory or a program id, so that no compiler works the result out by itself."""


@record(frozen=True, kw_only=True)
class Index:
    """The index of one access or view, by its parts. ``dtypes`` are JAX's names of those that are arrays."""

    name: str
    given: int
    """How many parts it has, an ellipsis counted for what it stands for."""
    rank: int
    """The rank of the ref that it indexes."""
    dtypes: tuple[str, ...] = ()


@record(frozen=True, kw_only=True)
class Capture:
    """Arrays that a kernel or an index map closes over, as messages write their types."""

    function: str
    kind: Literal["kernel", "index map"]
    types: tuple[str, ...]


@record(frozen=True, kw_only=True)
class Alias:
    """An input and an output that a launch says share a buffer; types as messages write them."""

    input: int
    output: int
    input_type: str
    output_type: str


@record(frozen=True, kw_only=True)
class BuiltFor:
    """The backend that a kernel's own parameters or mesh name."""

    kernel: str
    backend: Backend
    source: str
    """What names it, for messages."""


@record(frozen=True, kw_only=True)
class MemoryItem:
    """One buffer in a memory ledger: bytes at least and at most, and how they come about."""

    name: str
    low: int
    high: int
    how: str
    temporary: bool = False
    """Whether it is the compiler's own, beside what the kernel asks for."""


@record(frozen=True, kw_only=True)
class MemoryUse:
    """What a kernel asks of one on-chip space of the target. Bytes."""

    space: Literal["vmem", "smem", "shared", "tmem"]
    items: tuple[MemoryItem, ...]
    limit: int
    limit_from: str
    """Where the limit comes from, for messages."""
    most: int | None = None
    """The highest limit that the target gives to a kernel that asks for it."""
    fitting: tuple[int, int] | None = None
    """A block size, in elements, and the largest smaller one with which everything fits."""

    @property
    def low(self) -> int:
        """The bytes that the kernel certainly needs."""
        return sum(item.low for item in self.items)

    @property
    def high(self) -> int:
        """The bytes that it needs at most."""
        return sum(item.high for item in self.items)


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
    """What a launch gives to one kernel parameter. ``ref`` is the parameter as annotated."""

    kernel: str
    ref: RefFact
    source: str
    """What gives it, for messages: the pattern's operand, a block spec, an array."""
    space: type[MemorySpace] | None = None
    dtype: str | None = None
    block: Shape | None = None
    """What the kernel sees, squeezed dims left out. Elements."""
    what: Literal["block", "array"] = "block"
    """Whether ``block`` is what the kernel sees, or the whole array beside the pattern's own numbers."""
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
    split_axis: int | None = None
    """The parallel grid axis whose later steps run on another core of the chip; none if one core does it all."""


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


@record(frozen=True, kw_only=True)
class SemaphoreStarved:
    """A wait for more than a semaphore can ever get."""

    semaphore: str
    counts: Literal["bytes", "signals"]
    wanted: int
    there: int
    """What was started, or signalled, and not yet waited for: at most."""
    step: Point = ()


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
class KernelReturns:
    """A kernel that gives back values: as many, none where unknown."""

    kernel: str
    count: int | None = None


@record(frozen=True, kw_only=True)
class ShardedOperand:
    """An argument of the program that lies on several devices and reaches a kernel outside of `jax.shard_map`."""

    kernel: str
    name: str
    spec: str
    """How it is spread, as JAX writes it."""
    devices: int


@record(frozen=True, kw_only=True)
class UnusedOperand:
    """An operand that a kernel is handed and never looks at."""

    kernel: str
    name: str
    kind: str
    """As messages write it."""
    space: type[MemorySpace] | None = None


@record(frozen=True, kw_only=True)
class NarrowedSum:
    """A part of a sum that is rounded to a narrow type, and only then added in a wide one."""

    wide: str
    """The type of the part and of the sum; JAX's name."""
    narrow: str
    target: str
    """What the sum is kept in."""
    terms: int | None = None
    """How many such parts are added; none where unknown."""
    product: bool = True
    """Whether each part is a matrix product."""
    result: bool = False
    """Whether the sum is a result of the kernel as it is, and not rounded later."""


@record(frozen=True, kw_only=True)
class PaddedValue:
    """Elements past an array's end that reach a reduction or a matrix product, and through it a result."""

    name: str
    """The operand they come from."""
    axis: int
    extent: int
    """The array's elements along that axis."""
    loaded: tuple[int, int]
    """The elements that the last block or window takes: from, to (exclusive)."""
    primitive: str
    step: Point = ()
    """The grid step that loads them."""


type Event = (
    Access
    | Window
    | IndexMap
    | GridAxis
    | Operation
    | Value
    | Placement
    | MemoryUse
    | LaunchText
    | Operands
    | Argument
    | DimSize
    | CallSizes
    | Applied
    | Index
    | Capture
    | Alias
    | BuiltFor
    | Slice
    | Scalar
    | GarbageResult
    | SemaphoreLeft
    | SemaphoreStarved
    | CopyInUse
    | Shard
    | KernelReturns
    | ShardedOperand
    | UnusedOperand
    | NarrowedSum
    | PaddedValue
)
