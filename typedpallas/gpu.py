"""The memory spaces of an NVIDIA GPU, as Mosaic GPU knows them."""

from typedpallas.spaces import MemorySpace, VectorLoads, VectorStores


class GpuSpace(MemorySpace):
    """A space of a GPU."""

    machine = "gpu"


class GMEM(GpuSpace, VectorLoads, VectorStores):
    """Global memory."""


class SMEM(GpuSpace, VectorLoads, VectorStores):
    """Shared memory of one thread block."""


class TMEM(GpuSpace):
    """Tensor memory of Blackwell: matrix accumulators, read and written by asynchronous copies."""

    windowed = False
    reach = "`plgpu.async_load_tmem` and `plgpu.async_store_tmem`"


class REGS(GpuSpace, VectorLoads, VectorStores):
    """Registers."""


class ACC(GpuSpace, VectorLoads, VectorStores):
    """A WGMMA accumulator in registers: loaded at any index, stored whole, added to by `wgmma`."""

    windowed = False


class Barrier(GpuSpace):
    """Counts arrivals; it holds no data."""

    data = False
    windowed = False


class ClusterBarrier(Barrier):
    """Counts arrivals of a whole cluster."""
