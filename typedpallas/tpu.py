"""The memory spaces of a TPU core, as Mosaic TPU knows them."""

from typedpallas.spaces import MemorySpace, Scalars, VectorLoads, VectorStores

_COPIES = "`pltpu.sync_copy` or `pltpu.make_async_copy`"


class TpuSpace(MemorySpace):
    """A space of a TPU."""

    machine = "tpu"


class VMEM(TpuSpace, VectorLoads, VectorStores):
    """Vector memory: what the vector and matrix units load from and store to."""


class SMEM(TpuSpace, Scalars):
    """Scalar memory: one 32-bit word at a time, for indices, flags and tables."""


class HBM(TpuSpace):
    """High-bandwidth memory: only copies reach it."""

    windowed = False
    reach = _COPIES


class ANY(TpuSpace):
    """Wherever the compiler put the array; only copies reach it."""

    windowed = False
    reach = _COPIES


class CMEM(TpuSpace):
    """The common memory of a v4 chip."""

    reach = _COPIES


class VMEM_SHARED(TpuSpace):
    """Vector memory shared by the subcores of a SparseCore."""

    reach = _COPIES


class HOST(TpuSpace):
    """The host's memory."""

    windowed = False
    reach = _COPIES


class Semaphore(TpuSpace):
    """A semaphore of any kind; it counts, it holds no data."""

    data = False
    windowed = False


class DMA(Semaphore):
    """Counts the bytes of finished copies."""


class REGULAR(Semaphore):
    """Counts signals."""


class BARRIER(Semaphore):
    """Counts signals of other cores and chips."""
