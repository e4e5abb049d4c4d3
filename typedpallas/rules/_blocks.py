"""Arithmetic on blocks that several rules share, and the words for legal sizes. Sizes in elements."""

from typing import Literal

from typedpallas import dtypes, solve
from typedpallas.dims import Facts, Size
from typedpallas.events import Context, Window

type BlockDim = Size | Literal["squeezed"] | None
type Fit = Literal["fits", "never", "unknown"]

_NAMED_LIMIT = 2


def size_of(dim: BlockDim) -> Size | None:
    """The elements that a block has on an axis: one where the axis is squeezed away."""
    return Size.of(1) if isinstance(dim, str) else dim


def is_tiled(event: Window, context: Context) -> bool:
    """Whether the block lies in memory that a TPU core addresses by tiles.

    An operand left in `HBM` or `ANY`, a semaphore and a PRNG key's hidden dims are no such blocks.
    """
    if context.machine != "tpu" or (event.dtype or "").startswith("key<"):
        return False
    space = event.space
    return space is None or (space.machine != "gpu" and space.data and space.windowed)


def multiple_or_whole(block: Size, array: Size | None, step: int, facts: Facts) -> Fit:
    """Whether ``block`` is a multiple of ``step`` or the array's whole extent."""
    divided = solve.divides(step, block, facts)
    if isinstance(divided, solve.Proved) or block == array:
        return "fits"
    apart = array is not None and (block - array).const is not None
    return "never" if apart and isinstance(divided, solve.Refuted) else "unknown"


def called(event: Window, axis: int) -> str:
    """What the block size of an axis is called in the source; empty if it has no name."""
    return event.block_names[axis] or "" if event.block_names else ""


def with_name(event: Window, axis: int, size: int | str) -> str:
    """``BM=128``, or ``128`` where the block size has no name."""
    name = called(event, axis)
    return f"{name}={size}" if name else str(size)


def bits(dtype: str | None) -> int | None:
    """Bits of one element in memory; none where unknown. A TPU kernel keeps truth values in 32 bits."""
    if dtype == "bool":
        return 32
    marker = dtypes.from_jax_name(dtype) if dtype else None
    return marker.bits if marker else None


def legal_sizes(found: int, array: int, step: int) -> list[int]:
    """Block sizes nearest to ``found`` that are multiples of ``step``: those that divide the array first."""
    below, above = found // step * step, -(-found // step) * step
    near = [size for size in (below, above) if 0 < size <= max(array, step)]
    dividing = [size for size in range(step, array + 1, step) if array % size == 0]
    best = sorted(dividing, key=lambda size: (max(size, found) / min(size, found), size))[:_NAMED_LIMIT]
    return sorted(best) or near


def cut(array: int, block: int) -> str:
    """The arithmetic of a partial last block: ``1000 = 7*128 + 104``."""
    return f"{array} = {array // block}*{block} + {array % block}"


def use_sizes(event: Window, axis: int, step: int) -> str:
    """The help for a block size that must be a multiple of ``step`` or the array's whole extent."""
    block, array = size_of(event.block[axis]), event.array[axis]
    if array is None or array.const is None or block is None or block.const is None:
        return f"use a multiple of {step}"
    sizes = legal_sizes(block.const, array.const, step)
    texts = [with_name(event, axis, size) for size in sizes]
    texts += [f"{with_name(event, axis, array.const)} (the whole axis)"] if array.const not in sizes else []
    partial = next((size for size in sizes if array.const % size), None)
    note = f"; with {partial} the last block is partial ({cut(array.const, partial)})" if partial else ""
    return f"use {' or '.join(texts)}{note}"
