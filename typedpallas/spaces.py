"""Memory spaces as classes. Each owns what may be loaded and stored there and on which machine it exists.

The concrete spaces live with their machine: `typedpallas.tpu`, `typedpallas.gpu`. Here are the base, the
capabilities that type checkers read off the base classes, and the portable spaces, which the launch turns into
a real one for each backend.
"""

from typing import ClassVar, Literal

from typedpallas.chips import Machine

type Width = Literal["vector", "scalar", "none"]
"""What one load or store moves: whole vectors, one scalar, or nothing (only copies reach the space)."""


class MemorySpace:
    """A place where a buffer lives."""

    machine: ClassVar[Machine | None] = None
    """The machine that has it; none for portable spaces."""
    loads: ClassVar[Width] = "none"
    stores: ClassVar[Width] = "none"
    windowed: ClassVar[bool] = True
    """Whether an operand there can be cut into blocks along a grid."""
    data: ClassVar[bool] = True
    """Whether it holds array elements (semaphores and barriers do not)."""
    reach: ClassVar[str] = ""
    """How data gets in or out where loads and stores cannot, for messages."""


class VectorLoads(MemorySpace):
    """Capability: ``ref[index]`` loads a vector."""

    loads = "vector"


class VectorStores(MemorySpace):
    """Capability: ``ref[index] = value`` stores a vector."""

    stores = "vector"


class Scalars(MemorySpace):
    """Capability: loads and stores move one element, so an index names one."""

    loads = "scalar"
    stores = "scalar"


class Portable(VectorLoads, VectorStores):
    """A space that each backend maps to one of its own."""


class BLOCK(Portable):
    """A pipelined block: VMEM on TPU; what the backend picks on GPU."""


class ACC(Portable):
    """A matmul accumulator, zero at the start: VMEM, WGMMA registers, TMEM or a loop carry."""


class STATE(Portable):
    """Small state carried along the sequential grid axis: VMEM on TPU, registers on GPU."""


def name(space: type[MemorySpace]) -> str:
    """How messages write a space: ``tpu.VMEM``, ``gpu.SMEM``, ``tp.BLOCK``."""
    return f"{space.machine or 'tp'}.{space.__name__}"
