"""What a Mosaic GPU kernel keeps on its multiprocessor: shared memory, barriers, columns of tensor memory.

Mosaic GPU reserves it once for the whole kernel, and this works the sum out as its lowering does: each buffer of a
``run_scoped`` is rounded up to 1024 bytes; what a scope holds is added to the most that anything inside it needs;
steps one after another, and branches, share. Held against the size that the lowered launch asks for, to the byte.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from typedpallas import dtypes
from typedpallas.events import MemoryItem
from typedpallas.tracing import jaxapi
from typedpallas.tracing.gpu import refs as gpu_refs

_ALIGNMENT = 1024
"""Bytes that each buffer in shared memory is rounded up to."""
_BARRIER = 8
"""Bytes of one barrier."""
_TENSOR_ADDRESS = 4
"""Bytes in shared memory for the address of tensor memory."""
_COLUMNS = 8
"""What the columns of each buffer in tensor memory are rounded up to."""
_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min")
_DEFAULT_SCRATCH = 2048
"""Bytes that Mosaic GPU reserves for reductions across warps unless it is told another number."""

type _Barriers = Counter[Hashable]


@dataclass(frozen=True)
class Resources:
    """What a part of a kernel needs at once. ``shared`` in bytes, ``columns`` of 32 bits by 128 rows."""

    shared: tuple[MemoryItem, ...] = ()
    columns: tuple[MemoryItem, ...] = ()
    """Low and high of an item are columns, not bytes."""
    barriers: _Barriers = field(default_factory=Counter)
    """How many of each kind: element type, and barriers in one buffer."""
    known: bool = True
    """Whether everything in it was understood."""

    def beside(self, other: "Resources") -> "Resources":
        """Both at the same time."""
        return Resources(
            self.shared + other.shared,
            self.columns + other.columns,
            self.barriers + other.barriers,
            self.known and other.known,
        )

    def or_(self, other: "Resources") -> "Resources":
        """One after the other: the larger of both, each kind of memory by itself."""
        return Resources(
            max(self.shared, other.shared, key=_total),
            max(self.columns, other.columns, key=_total),
            self.barriers | other.barriers,
            self.known and other.known,
        )

    def items(self) -> tuple[MemoryItem, ...]:
        """Shared memory as a ledger, barriers included."""
        found = list(self.shared)
        count = sum(kind[1] * times for kind, times in self.barriers.items())  # type: ignore[index]
        if count:
            size = count * _BARRIER
            found.append(MemoryItem(name="barriers", low=size, high=size, how=f"{count} of {_BARRIER} bytes"))
        if self.columns:
            size = _TENSOR_ADDRESS
            found.append(MemoryItem(name="tensor memory", low=size, high=size, how="its address"))
        return tuple(found)


def _total(items: tuple[MemoryItem, ...]) -> int:
    return sum(item.low for item in items)


def of_kernel(jaxpr: Any, params: Any) -> Resources:
    """What a kernel needs. ``params``: its `plgpu.CompilerParams`, or none."""
    scratch = getattr(params, "reduction_scratch_bytes", _DEFAULT_SCRATCH)
    return _of(jaxpr, scratch)


def _of(jaxpr: Any, scratch: int) -> Resources:
    found = Resources()
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in _REDUCTIONS:
            size = _rounded(scratch, _ALIGNMENT)
            item = MemoryItem(name="reductions", low=size, high=size, how="room that warps share to reduce")
            found = found.or_(Resources(shared=(item,) if size else ()))
        elif name == "run_scoped":
            found = found.or_(_scope(eqn, scratch))
        else:
            for inner in jaxapi.inner_jaxprs(eqn):
                found = found.or_(_of(inner, scratch))
    return found


def _scope(eqn: Any, scratch: int) -> Resources:
    inner = next(jaxapi.inner_jaxprs(eqn))
    made = Resources()
    for name, var in zip(gpu_refs.scoped_names(inner), inner.invars, strict=True):
        made = made.beside(_buffer(name, var.aval))
    return made.beside(_of(inner, scratch))


def _buffer(name: str, aval: Any) -> Resources:
    """One buffer of a ``run_scoped``; registers and semaphores need nothing here."""
    shape = jaxapi.shape_of(aval)
    if shape is None or any(extent is None for extent in shape):
        return Resources(known=False)
    sizes = tuple(int(extent or 0) for extent in shape)
    space = str(getattr(jaxapi.memory_space(aval), "value", jaxapi.memory_space(aval)))
    dtype = jaxapi.dtype_name(aval) or ""
    if dtype in ("barrier", "cluster_barrier"):
        return Resources(barriers=Counter([(aval.dtype, math.prod(sizes))]))
    makers: dict[str, Callable[[str, Any, tuple[int, ...], str], Resources]] = {"smem": _shared, "tmem": _tensor}
    return makers[space](name, aval, sizes, dtype) if space in makers else Resources()


def _shared(name: str, aval: Any, sizes: tuple[int, ...], dtype: str) -> Resources:
    bits = _bits(dtype)
    if bits is None:
        return Resources(known=False)
    size = _rounded(math.prod(sizes) * bits // 8, _ALIGNMENT)
    how = f"({', '.join(map(str, sizes))}) x {bits} bits"
    return Resources(shared=(MemoryItem(name=name, low=size, high=size, how=how),) if size else ())


def _tensor(name: str, aval: Any, sizes: tuple[int, ...], dtype: str) -> Resources:
    columns = gpu_refs.tensor_columns(aval)
    if columns is None:
        return Resources(known=False)
    columns = _rounded(columns, _COLUMNS)
    how = f"{columns} columns for ({', '.join(map(str, sizes))}) of {dtype}"
    return Resources(columns=(MemoryItem(name=name, low=columns, high=columns, how=how),))


def _bits(dtype: str) -> int | None:
    if dtype == "bool":
        return 8
    marker = dtypes.from_jax_name(dtype)
    return marker.bits if marker else None


def _rounded(size: int, step: int) -> int:
    return -(-size // step) * step
