"""The memory spaces of an NVIDIA GPU, as Mosaic GPU knows them, and what moves data between them.

The copies and `wgmma` are Pallas's own, typed by space; they load JAX when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from typedpallas.spaces import MemorySpace, VectorLoads, VectorStores

if TYPE_CHECKING:
    from typedpallas._gpu_copies import async_copy_smem_to_tmem as async_copy_smem_to_tmem
    from typedpallas._gpu_copies import async_load_tmem as async_load_tmem
    from typedpallas._gpu_copies import async_store_tmem as async_store_tmem
    from typedpallas._gpu_copies import copy_gmem_to_smem as copy_gmem_to_smem
    from typedpallas._gpu_copies import copy_smem_to_gmem as copy_smem_to_gmem
    from typedpallas._gpu_copies import wgmma as wgmma
else:
    _COPIES = (
        "async_copy_smem_to_tmem",
        "async_load_tmem",
        "async_store_tmem",
        "copy_gmem_to_smem",
        "copy_smem_to_gmem",
        "wgmma",
    )

    def __getattr__(name: str) -> Any:
        if name not in _COPIES:
            raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
        return getattr(importlib.import_module("typedpallas._gpu_copies"), name)


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
    """Counts arrivals of a whole cluster; of the block where there are no clusters."""
