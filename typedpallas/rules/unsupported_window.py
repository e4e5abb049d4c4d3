"""`unsupported-window`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, Window
from typedpallas.rules import _blocks
from typedpallas.rules.base import Example, Finding, Rule

_MOST_BUFFERS = 2

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((64, 256), jnp.float32),)

def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2.0

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((64, 256), jnp.float32),
        grid=(4, 2),
        in_specs=[pl.BlockSpec((16, 128), lambda i, j: (i, j), pipeline_mode=pl.Buffered({buffers}))],
        out_specs=pl.BlockSpec((16, 128), lambda i, j: (i, j)),
    )(x)

def reference(x):
    return x * 2.0
"""


class UnsupportedWindow(Rule):
    """A block of a launch asks for what only `pltpu.emit_pipeline` can do.

    The pipeline that the compiler builds around a `pl.pallas_call` keeps one or two buffers of a block. Its blocks
    are addressed by block index on every axis or by element on every axis, not by a `pl.BoundedSlice`. Inside a
    kernel `pltpu.emit_pipeline` takes more buffers, and slices that the index map returns.

    Machines: TPU. Source: JAX's Mosaic TPU lowering, in JAX 0.11.2 and 0.12.0.1.
    """

    slug = "unsupported-window"
    judges = (Window,)
    message = "the pipeline of a `pl.pallas_call` cannot bring `{name}`: expected {expected}, found {found}"
    example = Example(bad=_KERNEL.format(buffers=3), good=_KERNEL.format(buffers=2), targets=("tpu-v5e",))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Window)
        if not _blocks.is_tiled(event, context):
            return
        if "bounded" in event.kinds:
            axis = event.kinds.index("bounded")
            yield self.refuted(
                blame=f"block[{axis}]",
                name=event.name,
                expected="blocks of one size",
                found=f"a `pl.BoundedSlice` on axis {axis}",
                help="leave the operand in `pl.ANY` and cut it with `pltpu.emit_pipeline`, or copy the slice",
            )
        elif "element" in event.kinds and "plain" in event.kinds:
            axis = event.kinds.index("plain")
            yield self.refuted(
                blame=f"block[{axis}]",
                name=event.name,
                expected="`pl.Element` on every axis or on none",
                found=f"a plain size on axis {axis}, `pl.Element` on axis {event.kinds.index('element')}",
                help=f"write `pl.Element({event.block[axis]})` and let the map return an element's index there",
            )
        if event.buffers is not None and not 1 <= event.buffers <= _MOST_BUFFERS:
            yield self.refuted(
                name=event.name,
                expected=f"1 or {_MOST_BUFFERS} buffers",
                found=f"`pl.Buffered({event.buffers})`",
                help=f"use `pl.Buffered({_MOST_BUFFERS})`, or cut the operand with `pltpu.emit_pipeline`",
            )
