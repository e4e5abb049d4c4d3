"""The memory spaces of a TPU core, as Mosaic TPU knows them, and the copies between them.

The copies are Pallas's own, typed by space; they load JAX when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from typedpallas.spaces import MemorySpace, Scalars, VectorLoads, VectorStores

_COPIES = "`pltpu.sync_copy` or `pltpu.make_async_copy`"

if TYPE_CHECKING:
    from typedpallas._tpu_copies import Copy as Copy
    from typedpallas._tpu_copies import DeviceId as DeviceId
    from typedpallas._tpu_copies import RemoteCopy as RemoteCopy
    from typedpallas._tpu_copies import async_copy as async_copy
    from typedpallas._tpu_copies import async_remote_copy as async_remote_copy
    from typedpallas._tpu_copies import copy as copy
    from typedpallas._tpu_copies import make_async_copy as make_async_copy
    from typedpallas._tpu_copies import make_async_remote_copy as make_async_remote_copy
    from typedpallas._tpu_copies import sync_copy as sync_copy
    from typedpallas._tpu_semaphores import semaphore_read as semaphore_read
    from typedpallas._tpu_semaphores import semaphore_signal as semaphore_signal
    from typedpallas._tpu_semaphores import semaphore_wait as semaphore_wait
    from typedpallas._tpu_stream import stream as stream
else:
    _LATER = {
        "Copy": "_tpu_copies",
        "DeviceId": "_tpu_copies",
        "RemoteCopy": "_tpu_copies",
        "async_copy": "_tpu_copies",
        "async_remote_copy": "_tpu_copies",
        "copy": "_tpu_copies",
        "make_async_copy": "_tpu_copies",
        "make_async_remote_copy": "_tpu_copies",
        "sync_copy": "_tpu_copies",
        "semaphore_read": "_tpu_semaphores",
        "semaphore_signal": "_tpu_semaphores",
        "semaphore_wait": "_tpu_semaphores",
        "stream": "_tpu_stream",
    }

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
        return getattr(importlib.import_module(f"typedpallas.{_LATER[name]}"), name)


class TpuSpace(MemorySpace):
    """A space of a TPU."""

    machine = "tpu"


class Copied(TpuSpace):
    """Capability: copies reach it, from and to every space that has this capability."""


class VMEM(Copied, VectorLoads, VectorStores):
    """Vector memory: what the vector and matrix units load from and store to."""


class SMEM(Copied, Scalars):
    """Scalar memory: one 32-bit word at a time, for indices, flags and tables."""


class HBM(Copied):
    """High-bandwidth memory: only copies reach it."""

    windowed = False
    reach = _COPIES


class ANY(Copied):
    """Wherever the compiler put the array; only copies reach it."""

    windowed = False
    reach = _COPIES


class CMEM(TpuSpace):
    """The common memory of a v4 chip. Today's compiler gives kernels none of it."""


class VMEM_SHARED(Copied):
    """Vector memory shared by the subcores of a SparseCore."""

    reach = _COPIES


class HOST(Copied):
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
