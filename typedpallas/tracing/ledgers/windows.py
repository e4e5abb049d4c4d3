"""The windows of one TPU kernel in VMEM: blocks with their buffers, padded to tiles.

XLA may keep a whole array in VMEM around the kernel. Then a window costs nothing if its blocks lie in one piece.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from typedpallas import dtypes, tpu
from typedpallas.chips import TpuTarget
from typedpallas.events import MemoryItem
from typedpallas.tracing import jaxapi
from typedpallas.tracing.grid import maps as grid_maps
from typedpallas.tracing.outer import program as grid_around
from typedpallas.tracing.walk import KernelCall, Operand

_FEWEST = 1024
"""Bytes that an array of one dim may take, however small."""
_WORD_BITS = 32
_ROWS, _LANES = 8, 128
_RESERVED = 8 << 20
"""XLA keeps no array in VMEM that leaves less than this for everything else. Bytes; a bound from below."""
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
            how=f"{most} buffer{'s' if most > 1 else ''} of {written(self.shape, self.bits)}",
        )


def windows(kernel: KernelCall, target: TpuTarget, kept: frozenset[int] | None) -> list[Window] | None:
    """Those that a kernel may need; none where a size is not known. ``kept`` as in `ledgers.vmem.use`."""
    found = []
    counts = {"in": 0, "out": 0}
    for position, operand in enumerate(kernel.operands):
        if operand.role not in counts:
            continue
        number = counts[operand.role]
        counts[operand.role] += 1
        if operand.mapping is None or operand.space is not tpu.VMEM:
            continue
        bits = bits_of(operand.dtype)
        shape = tuple(1 if dim == "squeezed" else dim for dim in operand.block or ())
        if bits is None or not all(isinstance(dim, int) for dim in shape):
            return None
        sizes = tuple(int(dim or 0) for dim in shape)
        stretch = _is_one_stretch(sizes, operand.array, bits)
        stays = kept is not None and position in kept
        if stays and stretch and _is_one_stretch(sizes, operand.array, _WORD_BITS) and _ends(sizes, operand.array):
            continue
        sure = _is_sure(kernel, operand, number, bits, target, stretch, kept is not None and not stays)
        found.append(Window(operand.name, sizes, bits, buffers(kernel, operand, target.cores), sure))
    return found


def buffers(kernel: KernelCall, operand: Operand, cores: int) -> tuple[int, int]:
    """One buffer where the block never moves, two where it does.

    A chip with several cores shares out a parallel axis: where that leaves each one step, no block moves along it.
    """
    asked = getattr(operand.mapping.pipeline_mode, "buffer_count", None)
    if asked == 1:
        return 1, 1
    extents = [2 if extent is None else extent for extent in kernel.grid]
    jaxpr = operand.mapping.index_map_jaxpr
    axes: set[int] = set().union(*grid_maps.axes_of_each(jaxpr, len(extents), extents))
    reads = any(eqn.primitive.name == "get" for eqn in jaxapi.open_jaxpr(jaxpr).eqns)
    if not axes and not reads:
        return 1, 1
    shared = _shared_out(kernel, cores)
    known = any(kernel.grid[axis] is not None for axis in axes - shared)
    return (2, 2) if known else (1, 2)


def _shared_out(kernel: KernelCall, cores: int) -> set[int]:
    """The grid axes that the cores may share out until each has one step; with unknown extents all that are parallel.

    Asked on v4 and v5p, whose two cores are one device: two parallel steps take one buffer for each operand.
    """
    if cores == 1:
        return set()
    few = {axis for axis, extent in enumerate(kernel.grid) if (extent or 0) <= cores}
    if kernel.eqn.params["grid_mapping"].vmapped_dims:
        return few  # what `jax.vmap` adds is parallel, and stands anywhere
    asked = getattr(kernel.compiler_params, "dimension_semantics", None) or ()
    parallel = {axis for axis, kind in enumerate(asked) if "parallel" in str(getattr(kind, "name", kind)).lower()}
    return parallel & few


def _is_sure(
    kernel: KernelCall, operand: Operand, number: int, bits: int, target: TpuTarget, stretch: bool, in_hbm: bool
) -> bool:
    """Whether an operand's window is certainly needed.

    Args:
        kernel: whose.
        operand: which.
        number: its position among the inputs or the outputs.
        bits: of an element.
        target: the chip that it is for.
        stretch: as `_is_one_stretch`; where not, it does not matter whether the array stays in HBM.
        in_hbm: whether it is known that it does.
    """
    params = kernel.compiler_params
    if operand.role == "in" and any(getattr(params, "allow_input_fusion", None) or ()):
        return False
    aliased = {pair[0 if operand.role == "in" else 1] for pair in kernel.aliases}
    if number in aliased:
        return False
    if in_hbm or not stretch:
        return True
    array = operand.array or ()
    if target.vmem_most_bytes == target.vmem_default_bytes:
        return True
    if padded(array, bits)[0] > target.vmem_most_bytes - _RESERVED:
        return True
    return target.generation < _FIRST_PREFETCHING_GENERATION and _is_untouched(kernel, operand, number, array)


def _is_one_stretch(block: Sequence[int], array: Sequence[int] | None, bits: int) -> bool:
    """Whether a block may lie in one piece in an array of tiles: then a kernel works in the array where VMEM has it.

    Asked about f32 and bf16 blocks of two and three dims on v5e and 7x: what else is cut out needs its window, even
    of an array that XLA keeps in VMEM. ``bits``: of an element; tiles have 8 rows, or more of narrow elements.
    """
    if array is None or len(array) != len(block):
        return True
    rows = _ROWS * _WORD_BITS // bits
    steps = (*(1,) * (len(block) - 2), *((rows,) if len(block) > 1 else ()), _LANES)
    cut, whole = ([-(-extent // step) for extent, step in zip(part, steps, strict=True)] for part in (block, array))
    if len(block) > 1 and whole[-2] > 1:
        cut[-2], whole[-2] = -(-block[-2] // _ROWS), -(-array[-2] // _ROWS)
    cut = [min(pair) for pair in zip(cut, whole, strict=True)]
    first = next((axis for axis, count in enumerate(cut) if count != 1), len(cut))
    return cut[first + 1 :] == whole[first + 1 :]


def _ends(block: Sequence[int], array: Sequence[int] | None) -> bool:
    """Whether no block leaves its array's tiles: one that does may need its window, or not."""
    if array is None or len(array) != len(block):
        return False
    steps = (*(1,) * (len(block) - 2), *((_ROWS,) if len(block) > 1 else ()), _LANES)
    return not any(
        -(-whole // step) % -(-size // step) for size, whole, step in zip(block, array, steps, strict=True)
    )


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


def padded(shape: Sequence[int], bits: int) -> tuple[int, int]:
    """Bytes of an array in tiles, at least and at most.

    Rows come in eights, or in a smaller power of two where there are fewer; lanes in 128s.
    """
    packing = _WORD_BITS // bits
    if len(shape) < 2:
        lanes = up(math.prod(shape), 128 * packing)
        return lanes * bits // 8, lanes * bits // 8
    *lead, rows, columns = shape
    fewest = up(rows, 8) if rows > 4 else 1 << (rows - 1).bit_length()
    row = math.prod(lead) * up(columns, 128) * bits
    return row * fewest // 8, row * up(rows, 8 * packing) // 8


def held(shape: Sequence[int], bits: int) -> tuple[int, int]:
    """Bytes of a window or a scratch buffer, at least and at most.

    Where its rows do not fill a large tile, they come in eights, or in a smaller power of two that fills words.
    Asked about f32, bf16 and int8 of 1 to 33 rows on v4, v5e, v6e and 7x, copied and loaded. Few elements of one dim
    take 1024 bytes on v5e where they are computed with, or what they fill.
    """
    low, high = padded(shape, bits)
    packing = _WORD_BITS // bits
    if len(shape) < 2:
        return low, max(high, _FEWEST)
    if shape[-2] >= 8 * packing:
        return low, high
    rows = max(1 << (shape[-2] - 1).bit_length(), packing) if shape[-2] <= 8 else up(shape[-2], 8)
    return low, math.prod(shape[:-2]) * rows * up(shape[-1], 128) * bits // 8


def up(size: int, step: int) -> int:
    return -(-size // step) * step


def written(shape: Sequence[int], bits: int) -> str:
    return f"({', '.join(map(str, shape))}) x {bits} bits"


def bits_of(dtype: str | None) -> int | None:
    marker = dtypes.from_jax_name(dtype or "")
    return _WORD_BITS if dtype == "bool" else marker.bits if marker else None
