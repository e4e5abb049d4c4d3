"""The shared memory of one block of a GPU kernel."""

from typedpallas.chips import GpuTarget
from typedpallas.events import MemoryUse
from typedpallas.tracing.walk import KernelCall


def use(kernel: KernelCall, target: GpuTarget) -> MemoryUse | None:
    """The ledger; none where it is not known."""
    return None
