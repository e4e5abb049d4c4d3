"""The VMEM of one TPU kernel: windows with their buffers, and scratch, padded to tiles.

Measured against libtpu 0.0.48.1, whose message says what a kernel asked for. The compiler's own temporaries are
bounded from above, by the values of the body. What is not certain: XLA may keep a whole array in
VMEM around the kernel, and then its window costs nothing.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from typedpallas import dtypes, tpu
from typedpallas.chips import TpuTarget
from typedpallas.events import MemoryItem, MemoryUse
from typedpallas.tracing import jaxapi
from typedpallas.tracing.grid import maps as grid_maps
from typedpallas.tracing.ledgers import values as ledger_values
from typedpallas.tracing.outer import program as grid_around
from typedpallas.tracing.walk import KernelCall, Operand

_MEBIBYTE = 1 << 20
_WORD_BITS = 32
_RESERVED = 8 << 20
"""XLA keeps no array in VMEM that leaves less than this for everything else. Bytes; a bound from below."""
_LAST_OF_32_BITS = 3
"""The last generation that computes in 32 bits only: it keeps what it widened in VMEM where no register holds it."""
_FIRST_PREFETCHING_GENERATION = 7
"""From this generation on, XLA copies the program's own arguments to VMEM ahead of a kernel where they fit."""


@dataclass(frozen=True)
class Window:
    """One operand's block in VMEM. ``shape`` in elements, squeezed dims as 1."""

    name: str
    shape: tuple[int, ...]
    bits: int
    buffers: tuple[int, int]
    """At least and at most."""
    sure: bool
    """Whether the compiler certainly allocates it."""

    def item(self) -> MemoryItem:
        """What it costs."""
        low, high = held(self.shape, self.bits)
        most = self.buffers[1]
        return MemoryItem(
            name=self.name,
            low=low * self.buffers[0] if self.sure else 0,
            high=high * most,
            how=f"{most} buffer{'s' if most > 1 else ''} of {_written(self.shape, self.bits)}",
        )


def use(kernel: KernelCall, target: TpuTarget) -> MemoryUse | None:
    """The ledger; none where a size is not known."""
    windows = _windows(kernel, target)
    scratch = _scratch(kernel, target)
    if windows is None or scratch is None:
        return None
    limit, source = _limit(kernel, target)
    items = (*(window.item() for window in windows), *scratch, *_temporaries(kernel.jaxpr, target))
    return MemoryUse(
        space="vmem",
        items=tuple(sorted(items, key=lambda item: -item.high)),
        limit=limit,
        limit_from=source,
        most=target.vmem_most_bytes,
        fitting=_fitting(windows, sum(item.high for item in scratch), limit),
    )


def padded(shape: Sequence[int], bits: int) -> tuple[int, int]:
    """Bytes of an array in tiles, at least and at most.

    Rows come in eights, or in a smaller power of two where there are fewer; lanes in 128s.
    """
    packing = _WORD_BITS // bits
    if len(shape) < 2:
        lanes = _up(math.prod(shape), 128 * packing)
        return lanes * bits // 8, lanes * bits // 8
    *lead, rows, columns = shape
    fewest = _up(rows, 8) if rows > 4 else 1 << (rows - 1).bit_length()
    row = math.prod(lead) * _up(columns, 128) * bits
    return row * fewest // 8, row * _up(rows, 8 * packing) // 8


def held(shape: Sequence[int], bits: int) -> tuple[int, int]:
    """Bytes of a window or a scratch buffer, at least and at most.

    Where its rows do not fill a large tile, they come in eights, or in a smaller power of two that fills words.
    Asked about f32, bf16 and int8 of 1 to 33 rows on v4, v5e, v6e and 7x, copied and loaded.
    """
    low, high = padded(shape, bits)
    packing = _WORD_BITS // bits
    if len(shape) < 2 or shape[-2] >= 8 * packing:
        return low, high
    rows = max(1 << (shape[-2] - 1).bit_length(), packing) if shape[-2] <= 8 else _up(shape[-2], 8)
    return low, math.prod(shape[:-2]) * rows * _up(shape[-1], 128) * bits // 8


def _up(size: int, step: int) -> int:
    return -(-size // step) * step


def _written(shape: Sequence[int], bits: int) -> str:
    return f"({', '.join(map(str, shape))}) x {bits} bits"


def _bits(dtype: str | None) -> int | None:
    marker = dtypes.from_jax_name(dtype or "")
    return _WORD_BITS if dtype == "bool" else marker.bits if marker else None


def _windows(kernel: KernelCall, target: TpuTarget) -> list[Window] | None:
    found = []
    counts = {"in": 0, "out": 0}
    for operand in kernel.operands:
        if operand.role not in counts:
            continue
        number = counts[operand.role]
        counts[operand.role] += 1
        if operand.mapping is None or operand.space is not tpu.VMEM:
            continue
        bits = _bits(operand.dtype)
        shape = tuple(1 if dim == "squeezed" else dim for dim in operand.block or ())
        if bits is None or not all(isinstance(dim, int) for dim in shape):
            return None
        sizes = tuple(int(dim or 0) for dim in shape)
        sure = _is_sure(kernel, operand, number, bits, target)
        found.append(Window(operand.name, sizes, bits, buffers(kernel, operand), sure))
    return found


def buffers(kernel: KernelCall, operand: Operand) -> tuple[int, int]:
    """One buffer where the block never moves, two where it does."""
    asked = getattr(operand.mapping.pipeline_mode, "buffer_count", None)
    if asked == 1:
        return 1, 1
    extents = [2 if extent is None else extent for extent in kernel.grid]
    jaxpr = operand.mapping.index_map_jaxpr
    axes: set[int] = set().union(*grid_maps.axes_of_each(jaxpr, len(extents), extents))
    reads = any(eqn.primitive.name == "get" for eqn in jaxapi.open_jaxpr(jaxpr).eqns)
    if not axes and not reads:
        return 1, 1
    known = any(kernel.grid[axis] is not None for axis in axes)
    return (2, 2) if known else (1, 2)


def _is_sure(kernel: KernelCall, operand: Operand, number: int, bits: int, target: TpuTarget) -> bool:
    """Whether the array certainly stays in HBM, so that its window is needed."""
    params = kernel.compiler_params
    if operand.role == "in" and any(getattr(params, "allow_input_fusion", None) or ()):
        return False
    aliased = {pair[0 if operand.role == "in" else 1] for pair in kernel.aliases}
    if number in aliased:
        return False
    array = operand.array or ()
    if target.vmem_most_bytes == target.vmem_default_bytes:
        return True
    if padded(array, bits)[0] > target.vmem_most_bytes - _RESERVED:
        return True
    return target.generation < _FIRST_PREFETCHING_GENERATION and _is_untouched(kernel, operand, number, array)


def _is_untouched(kernel: KernelCall, operand: Operand, number: int, array: tuple[int, ...]) -> bool:
    """Whether the array is the program's own argument or result, in a layout that needs no copy.

    An argument of a kernel that others run before is copied to VMEM meanwhile, as seen on v5e.
    """
    if operand.dtype == "bool" or any(extent % step for extent, step in zip(array[::-1], (128, 8), strict=False)):
        return False
    if len(array) == 1 and array[0] % 1024:
        return False
    if operand.role == "out":
        return grid_around.is_result(kernel, number)
    mapping = kernel.eqn.params["grid_mapping"]
    position = mapping.num_dynamic_grid_bounds + mapping.num_index_operands + number
    return grid_around.is_argument(kernel, position) and grid_around.comes_first(kernel)


def _scratch(kernel: KernelCall, target: TpuTarget) -> list[MemoryItem] | None:
    """The kernel's own buffers. What nobody looks into costs nothing, unless it alone is more than the chip has."""
    found, all_of_it = [], _up(target.vmem_most_bytes, _MEBIBYTE)
    for operand, var in zip(kernel.operands, kernel.jaxpr.invars, strict=False):
        if operand.role == "scratch" and operand.space is tpu.VMEM:
            if ledger_values.is_only_stored(kernel.jaxpr, var):
                alone = _buffer(operand.name, operand.aval, sure=True)
                if alone is not None and alone.low > all_of_it:
                    found.append(alone)
                continue
            sure = _is_read(kernel.jaxpr, var) and ledger_values.is_kept(kernel, var)
            item = _buffer(operand.name, operand.aval, sure)
            if item is None:
                return None
            found.append(item)
    return found


def _temporaries(jaxpr: Any, target: TpuTarget) -> list[MemoryItem]:
    """Room that the compiler may keep for values: the largest matrix product before it is stored, or all at once."""
    largest, how = 0, ""
    for shape, bits in _products(jaxpr):
        high = padded(shape, bits)[1]
        if high > largest:
            largest, how = high, f"up to the product of {_written(shape, bits)}"
    wide = ledger_values.widened(jaxpr) if target.generation <= _LAST_OF_32_BITS else 0
    if wide > largest:
        largest, how = wide, "up to two values of 16 bits, widened to 32"
    usual, alive = largest, ledger_values.alive(jaxpr, largest)
    if alive > largest:
        largest, how = alive, "up to all values that are alive at once"
    return (
        [MemoryItem(name="temporaries", low=0, high=largest, how=how, temporary=True, usual=usual)] if largest else []
    )


def _products(jaxpr: Any) -> Iterator[tuple[tuple[int, ...], int]]:
    """Shape and bits of every matrix product's result."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            shape = jaxapi.shape_of(eqn.outvars[0].aval)
            bits = _bits(jaxapi.dtype_name(eqn.outvars[0].aval))
            if shape is not None and bits is not None and None not in shape:
                yield tuple(extent or 0 for extent in shape), bits
        for inner in jaxapi.inner_jaxprs(eqn):
            yield from _products(inner)


def _buffer(name: str, aval: Any, sure: bool) -> MemoryItem | None:
    shape, dtype = jaxapi.shape_of(aval), jaxapi.dtype_name(aval)
    bits = _bits(dtype)
    if shape is None or bits is None or any(extent is None for extent in shape):
        return None
    sizes = tuple(int(extent or 0) for extent in shape)
    low, high = held(sizes, bits)
    certain = sure and dtype != "bool"
    return MemoryItem(name=name, low=low if certain else 0, high=high, how=f"scratch of {_written(sizes, bits)}")


_READS = ("get", "addupdate", "masked_load", "dma_start")
_MAY_NOT_COME = frozenset({"while"})


def _is_read(jaxpr: Any, var: Any) -> bool:
    """Whether a buffer is more than stored to: the compiler drops one that nobody reads.

    A ref that a loop or a branch is given is looked for in there.
    """
    for eqn in jaxpr.eqns:
        if not any(atom is var for atom in eqn.invars):
            continue
        if eqn.primitive.name in _READS or any(_is_read(*inner) for inner in _given(eqn, var)):
            return True
    return False


def _given(eqn: Any, var: Any) -> Iterator[tuple[Any, Any]]:
    """The jaxprs inside that get the variable, each with its name for it."""
    name = eqn.primitive.name
    if name in _MAY_NOT_COME or (name == "scan" and not eqn.params["length"]):
        return
    operands = eqn.invars[1:] if name == "cond" else eqn.invars
    if name == "cond" and jaxapi.is_literal(eqn.invars[0]):
        return
    for inner in jaxapi.inner_jaxprs(eqn):
        opened = jaxapi.open_jaxpr(inner)
        inputs = opened.constvars if name == "run_scoped" else opened.invars
        if len(inputs) == len(operands):
            yield from ((opened, own) for own, atom in zip(inputs, operands, strict=True) if atom is var)


def _limit(kernel: KernelCall, target: TpuTarget) -> tuple[int, str]:
    asked = getattr(kernel.compiler_params, "vmem_limit_bytes", None)
    if asked is None:
        return target.vmem_default_bytes, f"what `{target.name}` gives a kernel that asks for no more"
    if asked > target.vmem_most_bytes:
        return target.vmem_most_bytes, f"all that `{target.name}` can give"
    return asked, "`vmem_limit_bytes`"


def _fitting(windows: Sequence[Window], rest: int, limit: int) -> tuple[int, int] | None:
    """The block size that costs most, and the largest fraction of it with which everything fits; elements."""
    moving = [window for window in windows if window.buffers[1] > 1]
    if not moving or rest > limit:
        return None
    largest = max(moving, key=lambda window: window.item().high)
    size = max(largest.shape)
    step = 128 if any(window.shape[-1] == size for window in windows) else 8
    smaller = size // 2
    while smaller >= step and smaller % step == 0:
        cost = sum(_shrunk(window, size, smaller).item().high for window in windows)
        if cost + rest <= limit:
            return size, smaller
        smaller //= 2
    return None


def _shrunk(window: Window, size: int, smaller: int) -> Window:
    shape = tuple(smaller if extent == size else extent for extent in window.shape)
    return Window(window.name, shape, window.bits, window.buffers, window.sure)
