"""What a checker saw in a kernel: the one vocabulary between the front ends and the rules.

The mypy plugin builds these with symbolic sizes, the trace checker with numbers; a rule cannot tell which.
None always means "unknown", never "nothing". One file a subject; all of them are imported from here.
"""

from typedpallas.events.accesses import Access, Index
from typedpallas.events.barriers import (
    BarrierOverrun,
    BarrierStarved,
    CopyLeft,
    SharedInUse,
    SharedUse,
    StoreUncommitted,
    When,
)
from typedpallas.events.contents import GarbageResult, NeverStored, PaddedValue
from typedpallas.events.context import ArrayType, Backend, Context, RefFact, Shape
from typedpallas.events.copies import Copied, CopyInUse, Given, SemaphoreLeft, SemaphoreMisuse, SemaphoreStarved
from typedpallas.events.gpu import (
    BarrierGroup,
    BlockLaunch,
    BufferLayout,
    BulkCopy,
    MatrixOperand,
    MatrixProduct,
    RegisterLoad,
    RegisterUse,
    StoredInput,
    WarpReduction,
)
from typedpallas.events.launches import (
    Argument,
    BuiltFor,
    CallSizes,
    DimSize,
    KernelReturns,
    LaunchText,
    Operands,
    UnusedOperand,
)
from typedpallas.events.memory import MemoryItem, MemoryUse
from typedpallas.events.meshes import MeshAxis, RemoteDevice, ShardRank
from typedpallas.events.operations import (
    Applied,
    Capture,
    NarrowedSum,
    Operation,
    Placement,
    Reduced,
    Turned,
    Value,
    WrappedSum,
)
from typedpallas.events.parameters import WrongParameters
from typedpallas.events.slices import Known, Scalar, Slice, SlicePart, Step
from typedpallas.events.windows import (
    Alias,
    GridAxis,
    IdleAxis,
    IndexMap,
    Point,
    Shard,
    ShardedOperand,
    Visits,
    Window,
)

__all__ = [
    "Access",
    "Alias",
    "Applied",
    "Argument",
    "ArrayType",
    "Backend",
    "BarrierGroup",
    "BarrierOverrun",
    "BarrierStarved",
    "BlockLaunch",
    "BufferLayout",
    "BuiltFor",
    "BulkCopy",
    "CallSizes",
    "Capture",
    "Context",
    "Copied",
    "CopyInUse",
    "CopyLeft",
    "DimSize",
    "Event",
    "GarbageResult",
    "Given",
    "GridAxis",
    "IdleAxis",
    "Index",
    "IndexMap",
    "KernelReturns",
    "Known",
    "LaunchText",
    "MatrixOperand",
    "MatrixProduct",
    "MemoryItem",
    "MemoryUse",
    "MeshAxis",
    "NarrowedSum",
    "NeverStored",
    "Operands",
    "Operation",
    "PaddedValue",
    "Placement",
    "Point",
    "Reduced",
    "RefFact",
    "RegisterLoad",
    "RegisterUse",
    "RemoteDevice",
    "Scalar",
    "SemaphoreLeft",
    "SemaphoreMisuse",
    "SemaphoreStarved",
    "Shape",
    "Shard",
    "ShardRank",
    "ShardedOperand",
    "SharedInUse",
    "SharedUse",
    "Slice",
    "SlicePart",
    "Step",
    "StoreUncommitted",
    "StoredInput",
    "Turned",
    "UnusedOperand",
    "Value",
    "Visits",
    "WarpReduction",
    "When",
    "Window",
    "WrappedSum",
    "WrongParameters",
]

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
    | NeverStored
    | SemaphoreLeft
    | SemaphoreStarved
    | CopyInUse
    | Copied
    | SemaphoreMisuse
    | Shard
    | ShardRank
    | MeshAxis
    | RemoteDevice
    | KernelReturns
    | ShardedOperand
    | UnusedOperand
    | WrongParameters
    | NarrowedSum
    | BarrierGroup
    | BlockLaunch
    | BufferLayout
    | BulkCopy
    | MatrixProduct
    | RegisterLoad
    | RegisterUse
    | StoredInput
    | WarpReduction
    | WrappedSum
    | Reduced
    | Turned
    | IdleAxis
    | PaddedValue
    | BarrierStarved
    | BarrierOverrun
    | SharedInUse
    | StoreUncommitted
    | CopyLeft
)
