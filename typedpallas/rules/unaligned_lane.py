"""`unaligned-lane`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, Window
from typedpallas.rules import _blocks
from typedpallas.rules.base import Example, Finding, Rule

LANES = 128

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((512, 2048), jnp.float32),)
BLOCK = pl.BlockSpec((256, {columns}), lambda i, j: (i, j))

def kernel(x_ref, o_ref):
    o_ref[...] = jnp.tanh(x_ref[...])

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((512, 2048), jnp.float32),
        grid=(2, 2048 // {columns}),
        in_specs=[BLOCK],
        out_specs=BLOCK,
    )(x)

def reference(x):
    return jnp.tanh(x)
"""


class UnalignedLane(Rule):
    """The last dim of a block is neither a multiple of 128 nor the array's whole last dim.

    A TPU core keeps a block as tiles whose rows are 128 lanes wide, and a copy moves whole rows of lanes. A
    squeezed last dim counts as a block of 1. A block may be larger than its array.

    Machines: TPU, every chip from v4 to 7x, VMEM and SMEM, inputs and outputs. Source: JAX's Mosaic TPU lowering,
    asked about generated blocks of rank 2 to 4 in every dtype.
    """

    slug = "unaligned-lane"
    judges = (Window,)
    message = "block of `{name}` is unaligned on axis {axis}: expected {expected}, found {found}"
    example = Example(bad=_KERNEL.format(columns=64), good=_KERNEL.format(columns=128), targets=("tpu-v5e",))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Window)
        if len(event.block) < 2 or not _blocks.is_tiled(event, context):
            return
        axis = len(event.block) - 1
        block, array = _blocks.size_of(event.block[axis]), event.array[axis]
        if block is None:
            return
        fit = _blocks.multiple_or_whole(block, array, LANES, context.facts)
        if fit == "fits":
            return
        make = self.refuted if fit == "never" else self.open
        yield make(
            blame=f"block[{axis}]",
            name=event.name,
            axis=axis,
            expected=f"a multiple of {LANES} or the full {array if array is not None else 'dim'}",
            found=f"{block} (squeezed)" if event.block[axis] == "squeezed" else block,
            notes=(f"a vector register of a TPU core is {LANES} lanes wide",),
            help=_help(event, axis),
        )


def _help(event: Window, axis: int) -> str:
    if event.block[axis] == "squeezed":
        return f"keep the last axis whole or in blocks of {LANES}, and squeeze an axis before the last two"
    return _blocks.use_sizes(event, axis, LANES)
