"""The VMEM of one TPU kernel: windows with their buffers, and scratch, padded to tiles.

Measured against libtpu 0.0.48.1, whose message says what a kernel asked for. The compiler's own temporaries are
bounded from above, by the values of the body. What is not certain: XLA may keep a whole array in
VMEM around the kernel, and then its window costs nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from typedpallas import tpu
from typedpallas.chips import TpuTarget
from typedpallas.events import MemoryItem, MemoryUse
from typedpallas.tracing import jaxapi
from typedpallas.tracing.ledgers import spread as ledger_spread
from typedpallas.tracing.ledgers import values as ledger_values
from typedpallas.tracing.ledgers.windows import Window, bits_of, held, padded, up, windows, written
from typedpallas.tracing.walk import KernelCall

_MEBIBYTE = 1 << 20
_LAST_OF_32_BITS = 3
"""The last generation that computes in 32 bits only: it keeps what it widened in VMEM where no register holds it."""


def use(kernel: KernelCall, target: TpuTarget, kept: frozenset[int] | None = None) -> MemoryUse | None:
    """The ledger; none where a size is not known.

    Args:
        kernel: whose.
        target: the chip that it is for.
        kept: the operands, counted as the kernel has them, whose whole arrays XLA keeps in VMEM; none if unknown.
    """
    found = windows(kernel, target, kept)
    scratch = _scratch(kernel, target)
    if found is None or scratch is None:
        return None
    limit, source = _limit(kernel, target)
    items = (*(window.item() for window in found), *scratch, *_temporaries(kernel.jaxpr, target))
    return MemoryUse(
        space="vmem",
        items=tuple(sorted(items, key=lambda item: -item.high)),
        limit=limit,
        limit_from=source,
        most=target.vmem_most_bytes,
        fitting=_fitting(found, sum(item.high for item in scratch), limit),
    )


def _scratch(kernel: KernelCall, target: TpuTarget) -> list[MemoryItem] | None:
    """The kernel's own buffers. What nobody looks into costs nothing, unless it alone is more than the chip has."""
    found, all_of_it = [], up(target.vmem_most_bytes, _MEBIBYTE)
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
    scoped = [_buffer("a buffer of a scope", aval, sure=False) for aval in _scoped(kernel.jaxpr)]
    return None if None in scoped else [*found, *(item for item in scoped if item is not None)]


def _scoped(jaxpr: Any) -> Iterator[Any]:
    """The types of what `pl.run_scoped` puts in VMEM, in scopes, branches and loops: all together at most."""
    for eqn in jaxpr.eqns:
        for inner in jaxapi.inner_jaxprs(eqn):
            if eqn.primitive.name == "run_scoped":
                avals = (var.aval for var in inner.invars)
                yield from (aval for aval in avals if jaxapi.space_of(aval, "mosaic_tpu") is tpu.VMEM)
            yield from _scoped(inner)


def _temporaries(jaxpr: Any, target: TpuTarget) -> list[MemoryItem]:
    """Room that the compiler may keep for values: the largest matrix product before it is stored, or all at once."""
    largest, how, split = 0, "", 0
    for shape, bits, parts in _products(jaxpr):
        split = max(split, parts)
        if (high := padded(shape, bits)[1]) > largest:
            largest, how = high, f"up to the product of {written(shape, bits)}"
    usual, largest = largest, ledger_values.beside_product(largest)
    wide = ledger_values.widened(jaxpr) if target.generation <= _LAST_OF_32_BITS else 0
    if wide > largest:
        usual, largest, how = max(usual, wide), wide, "up to two values of 16 bits, widened to 32"
    spread = ledger_spread.most(jaxpr, ledger_values.bytes_of, ledger_values.REGISTERS)
    if spread > largest:
        usual, largest, how = max(usual, spread), spread, "up to what is put aside where rows or columns are spread"
    alive = ledger_values.alive(jaxpr)
    if alive > largest:
        largest, how = alive, "up to all values that wait at once"
    largest += split
    if target.generation <= _LAST_OF_32_BITS:
        largest += sum(_filled_up(eqn) for eqn in _dots(jaxpr))
    return (
        [MemoryItem(name="temporaries", low=0, high=largest, how=how, temporary=True, usual=usual)] if largest else []
    )


def _products(jaxpr: Any) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Shape and bits of every matrix product's result, and the bytes of the parts that its operands split into."""
    for eqn in _dots(jaxpr):
        shape = jaxapi.shape_of(eqn.outvars[0].aval)
        bits = bits_of(jaxapi.dtype_name(eqn.outvars[0].aval))
        if shape is not None and bits is not None and None not in shape:
            yield tuple(extent or 0 for extent in shape), bits, _split(eqn)


def _dots(jaxpr: Any) -> Iterator[Any]:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            yield eqn
        for inner in jaxapi.inner_jaxprs(eqn):
            yield from _dots(inner)


_SQUARE = 128
"""Rows and columns of a matrix unit."""


def _filled_up(eqn: Any) -> int:
    """What the old chips may put beside a product: its second operand in whole squares of words, or one square.

    Asked of libtpu 0.0.48.1 for v2 and v3: an operand of 16 rows takes 56 KiB more than it holds; whole squares take
    from none to 52 KiB for each product, and kernels of several products as much more.
    """
    shape, least = jaxapi.shape_of(eqn.invars[1].aval), _SQUARE * _SQUARE * 4
    if shape is None or len(shape) != 2 or None in shape:
        return least
    rows, columns = (up(extent or 0, _SQUARE) for extent in shape)
    return max(least, rows * columns * 4 - ledger_values.bytes_of(eqn.invars[1]))


def _split(eqn: Any) -> int:
    """A product of more than the matrix unit's precision works with three parts of 16 bits for each element."""
    if all(str(part) in ("None", "DEFAULT") for part in np.ravel(eqn.params["precision"])):
        return 0
    return sum(ledger_values.bytes_of(var) for var in eqn.invars) * 3 // 2


def _buffer(name: str, aval: Any, sure: bool) -> MemoryItem | None:
    shape, dtype = jaxapi.shape_of(aval), jaxapi.dtype_name(aval)
    bits = bits_of(dtype)
    if shape is None or bits is None or any(extent is None for extent in shape):
        return None
    sizes = tuple(int(extent or 0) for extent in shape)
    low, high = held(sizes, bits)
    certain = sure and dtype != "bool"
    return MemoryItem(name=name, low=low if certain else 0, high=high, how=f"scratch of {written(sizes, bits)}")


_READS = ("get", "addupdate", "masked_load", "dma_start")


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
    if (name == "scan" and not eqn.params["length"]) or (name == "cond" and jaxapi.is_literal(eqn.invars[0])):
        return
    for inner, pairs in ledger_values.handed(eqn):
        yield from ((inner, own) for own, atom in pairs or () if atom is var)


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
