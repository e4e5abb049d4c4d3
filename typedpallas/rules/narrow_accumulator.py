"""`narrow-accumulator`."""

from collections.abc import Iterator

from typedpallas import dtypes
from typedpallas.events import Context, Event, NarrowedSum
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((16, 1024), jnp.bfloat16), jax.ShapeDtypeStruct((1024, 128), jnp.bfloat16))

def kernel(x_ref, y_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    part = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32){cast}
    o_ref[...] += part

def run(x, y):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32),
        grid=(8,),
        in_specs=[pl.BlockSpec((16, 128), lambda k: (0, k)), pl.BlockSpec((128, 128), lambda k: (k, 0))],
        out_specs=pl.BlockSpec((16, 128), lambda k: (0, 0)),
    )(x, y)

def reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32)
"""
_BITS = {"bfloat16": 8, "float16": 11}
"""The bits of a significand, the leading one included."""


class NarrowAccumulator(Rule):
    """Each part of a long sum is rounded to 16 bits, and only then added to a 32-bit accumulator.

    The accumulator is wide, so the result looks as if it had 32 bits; but every step throws away what the matrix unit
    had computed, and the sum is no better than a 16-bit one. Only a part that comes from a 32-bit product or sum, is
    rounded, widened again and used for nothing but the accumulation is reported. Rounding once, at the end, is fine,
    and so are accumulators that are narrow by themselves. Where the sum is not a result of the kernel as it is, it
    may be rounded later anyway: then the verdict is left open.

    Machines: all. Source: the numbers. With 64 parts the relative error is about 1e-3 for such a sum, and 1e-7 for
    one whose parts stay wide (interpret mode, against 64-bit sums).
    """

    slug = "narrow-accumulator"
    judges = (NarrowedSum,)
    message = "each of {terms} parts of the sum in {target} is rounded first: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(cast=".astype(jnp.bfloat16)"),
        good=_KERNEL.format(cast=""),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, NarrowedSum)
        wide, narrow = dtypes.short(event.wide), dtypes.short(event.narrow)
        bits = _BITS.get(event.narrow, 8)
        make = self.refuted if event.result else self.open
        yield make(
            terms=event.terms,
            target=event.target,
            expected=f"`{wide}` until the sum is complete",
            found=f"`{narrow}` between the {'product' if event.product else 'partial sum'} and the addition",
            witness=f"a part of 1000 is off by up to {1000 / 2**bits:.2g}, at each step",
            help=f"drop `.astype(jnp.{event.narrow})` there; convert the finished sum",
        )
