"""`unused-operand`."""

from collections.abc import Iterator

from typedpallas import events
from typedpallas.events import Context, Event
from typedpallas.rules.base import Example, Finding, Rule

_MODULE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ARGS = (jax.ShapeDtypeStruct((8, 128), jnp.float32),)
ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)

def kernel(x_ref, {parameter}o_ref):
    pltpu.sync_copy(x_ref, o_ref)

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[ANYWHERE] * {count},
        out_specs=ANYWHERE,
    )(x{operand})

def reference(x):
    return x
"""


class UnusedOperand(Rule):
    """A kernel is handed an array in HBM that the program makes for it, and never looks at it.

    The array is computed and kept for nothing; and it is a rare path through the compilers: one release of libtpu
    spoiled another operand's copy in such a kernel (jax-ml/jax#39744). Today's compiles it, so the verdict is never
    more than open.

    Machines: TPU. Source: the kernel's own trace; the public report.
    """

    slug = "unused-operand"
    judges = (events.UnusedOperand,)
    message = "`{kernel}` never looks at `{name}`: expected {expected}, found {found}"
    example = Example(
        bad=_MODULE.format(parameter="y_ref, ", count=2, operand=", jnp.sin(x)"),
        good=_MODULE.format(parameter="", count=1, operand=""),
        targets=("tpu-v5e",),
        compiler="accepts",
        verdict="open",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, events.UnusedOperand)
        yield self.open(
            kernel=event.kernel,
            name=event.name,
            expected="operands that it reads",
            found=f"`{event.kind}`, made for nothing",
            help=f"drop `{event.name}` from the kernel and from the call",
        )
