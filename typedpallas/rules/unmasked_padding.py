"""`unmasked-padding`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, PaddedValue
from typedpallas.rules._steps import at_step, shown
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
    "reduce_sum": "the sum",
    "reduce_max": "the maximum",
    "reduce_min": "the minimum",
    "reduce_prod": "the product",
    "argmax": "the position of the maximum",
    "argmin": "the position of the minimum",
    "dot_general": "the matrix product",
    "cumsum": "the running sum",
    "cumprod": "the running product",
    "cummax": "the running maximum",
    "cummin": "the running minimum",
    None: "the result",
}
_TAKES = {"block": "holds", "load": "takes"}
_NEUTRAL = {
    **dict.fromkeys(("reduce_max", "cummax", "argmax"), "-jnp.inf"),
    **dict.fromkeys(("reduce_min", "cummin", "argmin"), "jnp.inf"),
    **dict.fromkeys(("reduce_prod", "cumprod"), "1.0"),
}


class UnmaskedPadding(Rule):
    """What lies past an array's end, in its last block, reaches an element of a result.

    Where blocks do not divide an array, the last one is filled up with whatever memory held. Element by element that
    does no harm, for what comes of it is not copied back; but a sum, a maximum or a matrix product over that axis
    mixes it into every result, and so does a result whose blocks lie elsewhere. Garbage is followed from each load
    over the whole grid, through calls, branches, loops and scratch. Masks that follow from program ids, such as
    `k * 256 + iota < 640`, are worked out for the step; where a mask hangs on data, nothing is said. Padding times
    zero is taken for what it may be on a TPU, NaN.

    Machines: TPU, GPU (Triton; there padding is what lies behind the array in memory, and zero times it is taken for
    zero). Source: JAX's interpret modes, which fill such memory with NaN: then the result is NaN.
    """

    slug = "unmasked-padding"
    judges = (PaddedValue,)
    message = "{what} takes in padding of `{name}`: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(mask=""),
        good=_KERNEL.format(mask=_MASK),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, PaddedValue)
        if event.whole_result is False or not (event.everything or event.whole_result):
            return
        first, end = event.loaded
        step = at_step(event.step, "the only step").removeprefix(" at ")
        yield self.refuted(
            what=_WORDS.get(event.primitive, f"`{event.primitive}`"),
            name=event.name,
            expected=f"elements below {event.extent} of axis {event.axis}",
            found=f"{end - max(first, event.extent)} more, with no mask" if event.by == "block" else "some past that",
            witness=f"{step} the {event.by} {_TAKES[event.by]} elements {first}:{end} of axis {event.axis}, "
            f"and the array ends at {event.extent}{_end(event)}",
            notes=(_note(context),),
            help=_help(event),
        )


def _end(event: PaddedValue) -> str:
    if not event.output:
        return ""
    return (
        f"; element {shown(event.result_element)} of block {shown(event.block)} of `{event.output}` is made of that"
    )


def _note(context: Context) -> str:
    if context.machine == "gpu":
        return "Triton checks no bounds: past an array's end it reads whatever lies behind it in memory"
    return "what lies past an array's end is whatever memory held"


def _help(event: PaddedValue) -> str:
    if event.by == "load":
        return f"let the load's mask end with the array, `mask=start + position < {event.extent}`"
    if event.primitive is None:
        return "let blocks of the result and of the operand end together, or use a block that divides the array"
    mask = f"`jnp.where(start + position < {event.extent}, value, {_NEUTRAL.get(event.primitive, '0.0')})`"
    each = " in each operand, for zero times NaN is NaN" if event.primitive == "dot_general" else ""
    return f"mask it, {mask}{each}; or use a block that divides the array"
