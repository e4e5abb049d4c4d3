"""The SMEM of one TPU kernel: prefetched scalars, blocks and scratch in scalar memory.

Measured against libtpu 0.0.48.1 by bisection and by its message: buffers are padded as in VMEM, and the compiler
keeps between 512 and 3072 bytes for itself, by chip and kernel.
"""

from typing import Any

from typedpallas import dtypes, tpu
from typedpallas.chips import TpuTarget
from typedpallas.events import MemoryItem, MemoryUse
from typedpallas.tracing import jaxapi
from typedpallas.tracing.ledgers import windows as ledger_windows
from typedpallas.tracing.walk import KernelCall, Operand

_KEPT = (512, 3072)
_WORD_BITS = 32


def use(kernel: KernelCall, target: TpuTarget) -> MemoryUse | None:
    """The ledger; none where the kernel has nothing there, or a size is not known."""
    items = []
    for operand, var in zip(kernel.operands, kernel.jaxpr.invars, strict=False):
        if operand.role != "prefetch" and operand.space is not tpu.SMEM:
            continue
        item = _item(kernel, operand, var, target.cores)
        if item is None:
            return None
        items.append(item)
    if not items:
        return None
    kept = MemoryItem(name="the compiler", low=_KEPT[0], high=_KEPT[1], how="for itself")
    limit = target.smem_bytes
    return MemoryUse(space="smem", items=(*items, kept), limit=limit, limit_from=f"all that `{target.name}` has")


def _item(kernel: KernelCall, operand: Operand, var: Any, cores: int) -> MemoryItem | None:
    shape, dtype = jaxapi.shape_of(operand.aval), jaxapi.dtype_name(operand.aval)
    if operand.block is not None:
        shape = tuple(1 if dim == "squeezed" else dim if isinstance(dim, int) else None for dim in operand.block)
    marker = dtypes.from_jax_name(dtype or "")
    if shape is None or marker is None or any(extent is None for extent in shape):
        return None
    sizes = tuple(int(extent or 0) for extent in shape) or (1,)
    bits = _WORD_BITS if dtype == "bool" else marker.bits
    low, high = ledger_windows.padded(sizes, bits)
    fewest, most = (1, 1) if operand.mapping is None else ledger_windows.buffers(kernel, operand, cores)
    sure = operand.role != "scratch" and _is_used(kernel, var, operand.role)
    written = f"({', '.join(map(str, sizes))}) x {bits} bits"
    return MemoryItem(
        name=operand.name,
        low=low * fewest if sure else 0,
        high=high * most,
        how=written if most == 1 else f"{most} buffers of {written}",
    )


def _is_used(kernel: KernelCall, var: Any, role: str) -> bool:
    """Whether the body touches it, or it is a table for the index maps."""
    if any(atom is var for eqn in kernel.jaxpr.eqns for atom in eqn.invars):
        return True
    maps = (op.mapping.index_map_jaxpr for op in kernel.operands if op.mapping is not None)
    return role == "prefetch" and any(
        eqn.primitive.name == "get" for jaxpr in maps for eqn in jaxapi.open_jaxpr(jaxpr).eqns
    )
