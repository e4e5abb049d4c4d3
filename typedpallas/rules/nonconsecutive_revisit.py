"""`nonconsecutive-revisit`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, GridAxis, IndexMap
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((8, 2048, 256), jnp.float32),)

def kernel(x_ref, o_ref):
    @pl.when(pl.program_id({reduced}) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((2048, 256), jnp.float32),
        grid={grid},
        in_specs=[pl.BlockSpec((None, 512, 256), lambda {ids}: (r, i, 0))],
        out_specs=pl.BlockSpec((512, 256), lambda {ids}: (i, 0)),
    )(x)

def reference(x):
    return jnp.sum(x, axis=0)
"""


class NonconsecutiveRevisit(Rule):
    """An output block is left, comes back later, and the kernel builds on what was in it.

    A TPU core writes a block back to HBM when the grid moves on to another one, and does not load it again: when it
    comes back, the buffer holds something else. A block that the last visit overwrites whole, before reading it, is
    right; one that keeps adding is wrong. Grid axes that an output does not depend on come last.

    Machines: TPU. Source: JAX's TPU interpret mode ("Revisited block"); jax-ml/jax#23099.
    """

    slug = "nonconsecutive-revisit"
    judges = (IndexMap, GridAxis)
    message = "blocks of `{name}` come back after they were left: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(reduced=0, grid="(8, 4)", ids="r, i"),
        good=_KERNEL.format(reduced=1, grid="(4, 8)", ids="i, r"),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, GridAxis):
            yield from self._axis(event, context)
            return
        assert isinstance(event, IndexMap)
        if event.role != "out" or context.machine != "tpu" or event.visits is None or event.visits.returns is None:
            return
        if event.keeps_stale == "no" or event.whole_result is False:
            return
        block, left, back = event.visits.returns
        make = self.refuted if event.keeps_stale == "yes" else self.open
        yield make(
            blame="map",
            name=event.name,
            expected="the steps that share a block in one run",
            found=f"block {block} left after grid point {left} and back at {back}",
            witness=f"block {block} is written back after grid point {left}, and not loaded again for {back}",
            help="move the grid axes that this output does not depend on behind those that it does, or accumulate in "
            "a scratch buffer",
        )

    def _axis(self, event: GridAxis, context: Context) -> Iterator[Finding]:
        if event.in_output or event.trailing or event.declared_parallel or context.machine != "tpu":
            return
        yield self.refuted(
            name=event.output,
            expected=f"grid axis `{event.axis}` behind those that `{event.output}` depends on",
            found=f"`{event.axis}` before one of them",
            help=f"move `{event.axis}` to the end of `grid=`",
        )
