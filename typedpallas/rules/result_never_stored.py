"""`result-never-stored`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, GarbageResult, NeverStored
from typedpallas.rules._steps import at_step, shown
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((64, 128), jnp.float32),)
BLOCK = pl.BlockSpec((16, 128), lambda i: (i, 0))

def kernel(x_ref, o_ref):
    {store}

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((64, 128), jnp.float32),
        grid=(4,),
        in_specs=[BLOCK],
        out_specs=BLOCK,
    )(x)

def reference(x):
    return jnp.exp(x)
"""


class ResultNeverStored(Rule):
    """No path through the kernel stores to some elements of an output's block: the result has what memory held.

    A block is written back as a whole. A store that takes only part of it, or that no grid step reaches, leaves the
    rest as it was: garbage on a TPU, the old content of fresh memory on a GPU. An output that reuses an input's
    memory (`input_output_aliases`) is left alone. Where the caller may cut the garbage off, the verdict is left open.

    Machines: TPU, GPU (Triton). Source: JAX's TPU interpret mode, which fills such memory with NaN.
    """

    slug = "result-never-stored"
    judges = (GarbageResult, NeverStored)
    message = "part of `{name}` is never stored: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(store="o_ref[0:8, :] = jnp.exp(x_ref[0:8, :])"),
        good=_KERNEL.format(store="o_ref[...] = jnp.exp(x_ref[...])"),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, NeverStored):
            yield from self._untouched(event)
            return
        assert isinstance(event, GarbageResult)
        if event.buffer is not None or event.whole_result is False:
            return
        certain = event.whole_result is True
        step = at_step(event.last_step, "the only step").removeprefix(" at ")
        make = self.refuted if certain else self.open
        held = f"what memory held in element {shown(event.result_element)}"
        witness = f"block {shown(event.block)} is written back after {step} with {held}"
        advice = f"store to all of `{event.output}`, at a grid step that is reached for each block"
        if event.by_any:
            witness = f"the programs together leave {held}"
            advice = (
                f"let the grid reach all of `{event.output}` (`pl.cdiv` and a mask for the last part), or give it "
            )
            advice += "a `pl.BlockSpec`"
        yield make(
            name=event.output,
            expected="a store to every element of each block",
            found="none at all" if event.everything else f"none to element {shown(event.result_element)}",
            witness=witness,
            help=advice,
        )

    def _untouched(self, event: NeverStored) -> Iterator[Finding]:
        """Left open: a caller that drops the result loses nothing."""
        if not event.read:
            yield self.open(
                name=event.name,
                expected="a store to every element of each block",
                found=f"none in all of `{event.kernel}`",
                help=f"store to `{event.name}`, or leave it out of the kernel and the launch; it is right if nobody "
                "uses that result",
            )
