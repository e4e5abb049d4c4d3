"""`unaligned-sublane`."""

from collections.abc import Iterator

from typedpallas.dims import Size
from typedpallas.events import Context, Event, Window
from typedpallas.rules import _blocks
from typedpallas.rules.base import Example, Finding, Rule

SUBLANES = 8
_PACKED_BELOW_BITS = 16
"""Narrower elements than this are laid out in tiles of more rows."""

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((1000, 512), jnp.bfloat16),)
BLOCK = pl.BlockSpec(({rows}, 512), lambda i: (i, 0))

def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((1000, 512), jnp.bfloat16),
        grid=(1000 // {rows},),
        in_specs=[BLOCK],
        out_specs=BLOCK,
    )(x)

def reference(x):
    return x * 2
"""


class UnalignedSublane(Rule):
    """The second-to-last dim of a block is neither a multiple of 8 nor the array's whole dim there.

    A TPU core keeps a block as tiles of 8 rows of 128 lanes. A squeezed dim counts as a block of 1; a block may be
    larger than its array. Elements of 8 bits (4 bits) are usually laid out in tiles of 32 (64) rows where the array
    has a multiple of that many; a block that cuts such a tile is refused, unless the compiler lays the array out
    otherwise, as it does for some results of a reshape: so that case is left to the compiler.

    Machines: TPU, every chip from v4 to 7x, VMEM and SMEM, inputs and outputs. Source: JAX's Mosaic TPU lowering
    and libtpu (E2002, misaligned block and tiling), asked about generated blocks of rank 2 to 4 in every dtype.
    """

    slug = "unaligned-sublane"
    judges = (Window,)
    message = "block of `{name}` is unaligned on axis {axis}: expected {expected}, found {found}"
    example = Example(bad=_KERNEL.format(rows=100), good=_KERNEL.format(rows=200), targets=("tpu-v5e",))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Window)
        if len(event.block) < 2 or not _blocks.is_tiled(event, context):
            return
        axis = len(event.block) - 2
        block, array = _blocks.size_of(event.block[axis]), event.array[axis]
        if block is None:
            return
        fit = _blocks.multiple_or_whole(block, array, SUBLANES, context.facts)
        if fit == "fits":
            yield from self._packed(event, axis, block, array)
            return
        make = self.refuted if fit == "never" else self.open
        yield make(
            blame=f"block[{axis}]",
            name=event.name,
            axis=axis,
            expected=f"a multiple of {SUBLANES} or the full {array if array is not None else 'dim'}",
            found=f"{block} (squeezed)" if event.block[axis] == "squeezed" else block,
            notes=(f"a vector register of a TPU core has {SUBLANES} sublanes",),
            help=_help(event, axis),
        )

    def _packed(self, event: Window, axis: int, block: Size, array: Size | None) -> Iterator[Finding]:
        """Narrow elements: rows come in larger tiles where the array has whole tiles of them."""
        width = _blocks.bits(event.dtype)
        if width is None or width >= _PACKED_BELOW_BITS or array is None:
            return
        rows, extent = block.const, array.const
        tile = SUBLANES * 32 // width
        if rows is None or extent is None or extent % tile or rows == extent or rows % tile == 0:
            return
        yield self.open(
            blame=f"block[{axis}]",
            name=event.name,
            axis=axis,
            expected=f"a multiple of {tile} or the full {extent}",
            found=rows,
            notes=(
                f"{extent} rows of {event.dtype} are laid out in tiles of {tile} rows unless the compiler picks "
                "another layout for this array",
            ),
            help=_blocks.use_sizes(event, axis, tile),
        )


def _help(event: Window, axis: int) -> str:
    if event.block[axis] == "squeezed":
        return f"keep this axis whole or in blocks of {SUBLANES}, or move the axis to squeeze before the last two"
    return _blocks.use_sizes(event, axis, SUBLANES)
