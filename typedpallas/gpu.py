"""The memory spaces of an NVIDIA GPU, as Mosaic GPU knows them."""

from typedpallas.spaces import MemorySpace


class GpuSpace(MemorySpace):
    """A space of a GPU."""

    machine = "gpu"


class GMEM(GpuSpace):
    """Global memory."""

    loads = "vector"
    stores = "vector"


class SMEM(GpuSpace):
    """Shared memory of one thread block."""

    loads = "vector"
    stores = "vector"


class TMEM(GpuSpace):
    """Tensor memory of Blackwell: matrix accumulators, read and written by asynchronous copies."""

    windowed = False
    reach = "`plgpu.async_load_tmem` and `plgpu.async_store_tmem`"


class REGS(GpuSpace):
    """Registers."""

    loads = "vector"
    stores = "vector"


class ACC(GpuSpace):
    """A WGMMA accumulator in registers: loaded whole; written by `plgpu.wgmma` alone."""

    loads = "vector"
    windowed = False
    reach = "`plgpu.wgmma`"


class Barrier(GpuSpace):
    """Counts arrivals; it holds no data."""

    data = False
    windowed = False


class ClusterBarrier(Barrier):
    """Counts arrivals of a whole cluster."""
