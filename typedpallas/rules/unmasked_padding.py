"""`unmasked-padding`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, PaddedValue
from typedpallas.rules._steps import shown
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((8, 640), jnp.float32),)

def kernel(x_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    x = x_ref[...]{mask}
    o_ref[...] += jnp.sum(x * x, axis=1, keepdims=True)

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 1), jnp.float32),
        grid=(3,),
        in_specs=[pl.BlockSpec((8, 256), lambda k: (0, k))],
        out_specs=pl.BlockSpec((8, 1), lambda k: (0, 0)),
    )(x)

def reference(x):
    return jnp.sum(x * x, axis=1, keepdims=True)
"""
_MASK = """
    column = pl.program_id(0) * 256 + jax.lax.broadcasted_iota(jnp.int32, (8, 256), 1)
    x = jnp.where(column < 640, x, 0.0)"""
_WORDS = {
    "reduce_sum": "sum",
    "reduce_max": "maximum",
    "reduce_min": "minimum",
    "reduce_prod": "product",
    "dot_general": "matrix product",
}
_NEUTRAL = {"reduce_max": "-jnp.inf", "reduce_min": "jnp.inf", "reduce_prod": "1.0"}


class UnmaskedPadding(Rule):
    """A block that reaches past its array's end goes into a reduction over just that axis, with nothing masked.

    Where blocks do not divide an array, the last one is filled up with whatever memory held. Element by element that
    does no harm, for what comes of it is not copied back; but a sum, a maximum or a matrix product over that axis
    mixes it into every result. Reported is only what surely happens: the partial block is visited, it is loaded as a
    whole, and no `jnp.where` or other use of positions lies between the load and the reduction.

    Machines: TPU, GPU (Triton). Source: JAX's TPU interpret mode, which fills such memory with NaN: then the
    result is NaN.
    """

    slug = "unmasked-padding"
    judges = (PaddedValue,)
    message = "the {what} takes in padding of `{name}`: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(mask=""),
        good=_KERNEL.format(mask=_MASK),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, PaddedValue)
        first, end = event.loaded
        neutral = _NEUTRAL.get(event.primitive, "0.0")
        yield self.refuted(
            what=_WORDS.get(event.primitive, event.primitive),
            name=event.name,
            expected=f"elements below {event.extent} of axis {event.axis}",
            found=f"{end - event.extent} more, with no mask",
            witness=f"at grid point {shown(event.step)} the block holds elements {first}:{end} of axis {event.axis}, "
            f"and the array ends at {event.extent}",
            notes=("what lies past an array's end is whatever memory held",),
            help=f"mask it, `jnp.where(start + position < {event.extent}, value, {neutral})`, in each operand; "
            "or use a block that divides the array",
        )
