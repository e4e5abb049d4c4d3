"""`narrow-accumulator`."""

from collections.abc import Iterator

from typedpallas import dtypes
from typedpallas.events import Context, Event, NarrowedSum, WrappedSum
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


_MOST = {"int4": 7, "int8": 127, "int16": 32767}
"""The largest number of a type."""


class NarrowAccumulator(Rule):
    """Each part of a long sum is rounded to 16 bits, and only then added to a 32-bit accumulator; or integer products
    of 32 bits are added up in a buffer of 8 or 16, where the sum wraps around.

    The accumulator is wide, so the result looks as if it had 32 bits; but every step throws away what the matrix unit
    had computed, and the sum is no better than a 16-bit one. Only a part that comes from a 32-bit product or sum, is
    rounded, widened again and used for nothing but the accumulation is reported. Rounding once, at the end, is fine,
    and so are accumulators that are narrow by themselves. Where the sum is not a result of the kernel as it is, it
    may be rounded later anyway: then the verdict is left open.

    JAX refuses a float of another type at a store (`dtype-mismatch`), but converts an integer without a word. So
    `acc[...] += jnp.dot(x, y, preferred_element_type=jnp.int32)` with an `int8` buffer cuts 24 bits off at each step.
    That is reported where the products come straight from memory and the sum is made wider again for the result; else
    it may be meant, and is left open.

    Machines: all. Source: the numbers. With 64 parts the relative error is about 1e-3 for such a sum, and 1e-7 for
    one whose parts stay wide (interpret mode, against 64-bit sums).
    """

    slug = "narrow-accumulator"
    judges = (NarrowedSum, WrappedSum)
    message = "{each} of the sum in {target} is {how}: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(cast=".astype(jnp.bfloat16)"),
        good=_KERNEL.format(cast=""),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, WrappedSum):
            yield self._wrapped(event)
            return
        assert isinstance(event, NarrowedSum)
        wide, narrow = dtypes.short(event.wide), dtypes.short(event.narrow)
        bits = _BITS.get(event.narrow, 8)
        make = self.refuted if event.result else self.open
        yield make(
            each=f"each of {event.terms} parts",
            how="rounded first",
            target=event.target,
            expected=f"`{wide}` until the sum is complete",
            found=f"`{narrow}` between the {'product' if event.product else 'partial sum'} and the addition",
            witness=f"a part of 1000 is off by up to {1000 / 2**bits:.2g}, at each step",
            help=f"drop `.astype(jnp.{event.narrow})` there; convert the finished sum",
        )

    def _wrapped(self, event: WrappedSum) -> Finding:
        wide, narrow = dtypes.short(event.wide), dtypes.short(event.narrow)
        most, total = _MOST[event.narrow], event.depth
        for kind in event.operands:
            total *= _MOST.get(kind, 1)
        make = self.refuted if event.loaded and event.widened and total * event.terms > most else self.open
        return make(
            each="each product",
            target=f"`{event.buffer}`",
            how="cut off when it is added",
            expected=f"`{wide}`, as the products are",
            found=f"`{narrow}`",
            witness=f"one product of {event.depth} pairs reaches {total}; `{narrow}` holds at most {most}",
            notes=("JAX converts integers at a store without a word: the upper bits are lost",),
            help=f"make `{event.buffer}` `jnp.{event.wide}`",
        )
