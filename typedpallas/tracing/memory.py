"""What a kernel asks of on-chip memory, in bytes at least and at most, and of the units of a GPU around it."""

from collections.abc import Iterator

from typedpallas.chips import GpuTarget, TpuTarget
from typedpallas.events import Context, MemoryUse
from typedpallas.tracing.gpu import inputs as gpu_inputs
from typedpallas.tracing.gpu import units as gpu_units
from typedpallas.tracing.ledgers import shared as ledger_shared
from typedpallas.tracing.ledgers import smem as ledger_smem
from typedpallas.tracing.ledgers import vmem as ledger_vmem
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall


def events(kernel: KernelCall, context: Context) -> Iterator[Located]:
    """One `MemoryUse` for each kind of on-chip memory of the target that the kernel is known to use.

    For Mosaic GPU also what it asks of the matrix unit, the copy engine and the launch; on every GPU,
    stores to the caller's arrays.
    """
    uses: tuple[MemoryUse | None, ...] = ()
    if isinstance(context.target, TpuTarget) and kernel.backend == "mosaic_tpu":
        uses = ledger_vmem.use(kernel, context.target), ledger_smem.use(kernel, context.target)
    elif isinstance(context.target, GpuTarget) and kernel.backend in ("mosaic_gpu", "triton"):
        uses = ledger_shared.use(kernel, context.target), ledger_shared.tensor_use(kernel)
    for use in uses:
        if use is not None and use.items:
            yield Located(use, kernel.place, kernel.name)
    yield from gpu_units.events(kernel)
    if context.machine == "gpu":
        yield from gpu_inputs.events(kernel)
