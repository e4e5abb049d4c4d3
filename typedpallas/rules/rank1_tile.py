"""`rank1-tile`."""

from collections.abc import Iterator

from typedpallas import solve
from typedpallas.dims import Facts, Size
from typedpallas.events import Context, Event, Window
from typedpallas.rules import _blocks, _tiles
from typedpallas.rules.base import Example, Finding, Rule

LANES = 128
_OLD_WORDS = 2 * LANES
"""What v2 and v3 move at least: 1024 bytes."""
TILE = 1024
"""Elements of a vector register of 32-bit elements: 8 sublanes x 128 lanes."""

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((48000,), jnp.float32),)
BLOCK = pl.BlockSpec(({block},), lambda i: (i,))

def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1.0

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((48000,), jnp.float32),
        grid=(pl.cdiv(48000, {block}),),
        in_specs=[BLOCK],
        out_specs=BLOCK,
    )(x)

def reference(x):
    return x + 1.0
"""


class Rank1Tile(Rule):
    """A block of rank 1 is no whole number of tiles.

    It must be the whole array, a multiple of 1024 elements, or a power of two of at least 128 lanes of 32 bits:
    128 elements of f32, 256 of bf16, 512 of int8. On v2 and v3 the least is twice that: the compiler refuses a
    smaller block ("Operand of shape (384) has tiling (256)", E2002).

    Machines: TPU, every chip from v2 to 7x, VMEM and SMEM. Source: JAX's Mosaic TPU lowering, asked about generated
    blocks in every dtype, and libtpu 0.0.48 for v2 and v3.
    """

    slug = "rank1-tile"
    judges = (Window,)
    message = "block of `{name}` is no whole number of tiles: expected {expected}, found {found}"
    example = Example(bad=_KERNEL.format(block=1000), good=_KERNEL.format(block=1024), targets=("tpu-v5e",))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Window)
        if len(event.block) != 1 or not _blocks.is_tiled(event, context):
            return
        block, array, width = _blocks.size_of(event.block[0]), event.array[0], _blocks.bits(event.dtype)
        if block is None or width is None:
            return
        least = (_OLD_WORDS if _tiles.is_old(context.target) else LANES) * 32 // width
        fit = _fits(block, array, least, context.facts)
        if fit == "fits":
            return
        make = self.refuted if fit == "never" else self.open
        yield make(
            blame="block[0]",
            name=event.name,
            expected=f"a multiple of {TILE}, a power of two from {least} up, or the full "
            f"{array if array is not None else 'array'}",
            found=f"{block} (squeezed)" if event.block[0] == "squeezed" else block,
            notes=(f"rank 1 blocks of {event.dtype} lie in tiles of {least} to {TILE} elements",),
            help=_help(event, least),
        )


def _fits(block: Size, array: Size | None, least: int, facts: Facts) -> _blocks.Fit:
    if isinstance(solve.divides(TILE, block, facts), solve.Proved) or block == array:
        return "fits"
    size = block.const
    if size is None:
        return "unknown"
    if size >= least and size & (size - 1) == 0:
        return "fits"
    return "never" if array is not None and (block - array).const is not None else "unknown"


def _help(event: Window, least: int) -> str:
    if event.block[0] == "squeezed":
        return "keep the axis whole or in blocks, and index the ref in the kernel"
    block, array = _blocks.size_of(event.block[0]), event.array[0]
    if block is None or block.const is None or array is None or array.const is None:
        return f"use a multiple of {TILE}"
    found, extent = block.const, array.const
    powers = [least << k for k in range(11) if least << k <= TILE]
    sizes = sorted({*powers, max(found // TILE, 1) * TILE, -(-found // TILE) * TILE}, key=lambda s: abs(s - found))
    dividing = [size for size in sizes if extent % size == 0]
    texts = []
    for size in dict.fromkeys((sizes[0], *dividing[:1])):
        partial = f" (the last block is then partial: {_blocks.cut(extent, size)})" if extent % size else ""
        texts.append(_blocks.with_name(event, 0, size) + partial)
    return f"use {' or '.join(texts)} or {_blocks.with_name(event, 0, extent)} (the whole axis)"
