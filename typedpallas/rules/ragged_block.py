"""`ragged-block`."""

import itertools
import math
from collections.abc import Iterator

from typedpallas.events import Context, Event, Window
from typedpallas.rules import _blocks
from typedpallas.rules.base import Example, Finding, Rule

_ALLOCATED = 256
"""XLA gives every buffer on a GPU a multiple of this many bytes."""

_LAUNCH = """
import jax
import jax.numpy as jnp
from typing import Literal as L
import typedpallas as tp
from typedpallas import In, Multiple, Out, f32

ARGS = (jax.ShapeDtypeStruct((1000, 512), jnp.float32),)

def double[BM: Multiple[L[8]]](
    x: In[tp.BLOCK, f32, BM, L[512]],
    o: Out[tp.BLOCK, f32, BM, L[512]],
) -> None:
    o[...] = x[...] * 2.0

doubled = tp.launch(double, "(i BM) 512 -> (i BM) 512", grid="i")

def run(x: jax.Array) -> jax.Array:
    return doubled(x, BM={rows})

def reference(x: jax.Array) -> jax.Array:
    return x * 2.0
"""


class RaggedBlock(Rule):
    """A block does not divide its array where nobody asked for a partial last block.

    A launch cuts a dim into whole blocks; a partial last one is asked for with `ragged=`, because the kernel then
    sees rows that are not there. In plain Pallas a partial last block is legal on TPU and in interpret mode. Triton
    knows no partial blocks: a kernel that stores a whole block there writes past the array into whatever lies
    behind it.

    Machines: all for launches; Triton for plain Pallas. Source: the contract of `tp.launch`; an H200, where such
    kernels gave wrong numbers as soon as they wrote more than the rest of the allocation.
    """

    slug = "ragged-block"
    judges = (Window,)
    message = "block of `{name}` does not divide axis {axis}: expected {expected}, found {found}"
    example = Example(
        bad=_LAUNCH.format(rows=256),
        good=_LAUNCH.format(rows=200),
        targets=("tpu-v5e",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Window)
        if event.ragged is not None:
            yield from self._asked(event, event.ragged, context)
        elif context.backend == "triton" and event.role == "out" and event.stored_whole:
            yield from self._overrun(event)

    def _asked(self, event: Window, ragged: frozenset[int], context: Context) -> Iterator[Finding]:
        for axis, (dim, array) in enumerate(zip(event.block, event.array, strict=True)):
            block = _blocks.size_of(dim)
            if axis in ragged or block is None or array is None or array.exactly_over(block) is not None:
                continue
            known = block.const is not None and array.const is not None
            make = self.refuted if known else self.open
            name = _blocks.called(event, axis)
            asked = f'say `ragged="{name}"` and mask what is past the end' if name else "pad the array"
            yield make(
                blame=f"block[{axis}]",
                name=event.name,
                axis=axis,
                expected=f"a divisor of {array}",
                found=_blocks.with_name(event, axis, str(block)),
                witness=_blocks.cut(array.const or 0, block.const or 1) if known else "",
                help=f"{_divisors(event, axis, context)}{asked}",
            )

    def _overrun(self, event: Window) -> Iterator[Finding]:
        """Whether the blocks of an output, laid side by side, end behind the array's allocation."""
        blocks = [_blocks.size_of(dim) for dim in event.block]
        sizes = [block.const for block in blocks if block is not None and block.const is not None]
        extents = [extent.const for extent in event.array if extent is not None and extent.const is not None]
        bits = _blocks.bits("int8" if event.dtype == "bool" else event.dtype)
        if bits is None or len(sizes) != len(event.block) or len(extents) != len(event.block):
            return
        partial = [axis for axis, (extent, size) in enumerate(zip(extents, sizes, strict=True)) if extent % size]
        if not partial:
            return
        past = _past_end(extents, sizes) * bits // 8
        spare = -(math.prod(extents) * bits // 8) % _ALLOCATED
        axis = partial[-1]
        make = self.refuted if past > spare else self.open
        yield make(
            blame=f"block[{axis}]",
            name=event.name,
            axis=axis,
            expected=f"a divisor of {extents[axis]}, or a masked store",
            found=sizes[axis],
            witness=f"{_blocks.cut(extents[axis], sizes[axis])}; the last block stores {past} bytes past the array, "
            f"whose allocation has {spare} to spare",
            help="store with a mask (`plt.store(..., mask=...)`), pad the array, or use a block that divides it",
        )


def _past_end(extents: list[int], sizes: list[int]) -> int:
    """Elements between the array's end and the end of the last block's last row, in row-major order."""
    strides = list(itertools.accumulate(reversed(extents[1:]), lambda a, b: a * b, initial=1))[::-1]
    last = [-(-extent // size) * size - 1 for extent, size in zip(extents, sizes, strict=True)]
    return sum(place * stride for place, stride in zip(last, strides, strict=True)) + 1 - math.prod(extents)


def _divisors(event: Window, axis: int, context: Context) -> str:
    block, array = _blocks.size_of(event.block[axis]), event.array[axis]
    if block is None or array is None or block.const is None or array.const is None:
        return ""
    from_end = len(event.block) - 1 - axis
    step = {0: 128, 1: 8}.get(from_end, 1) if context.machine != "gpu" else 1
    sizes = [size for size in range(step, array.const + 1, step) if array.const % size == 0]
    near = sorted(sizes, key=lambda size: (max(size, block.const or 1) / min(size, block.const or 1), size))[:2]
    return f"use {' or '.join(_blocks.with_name(event, axis, size) for size in sorted(near))}, or " if near else ""
