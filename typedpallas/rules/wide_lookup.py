"""`wide-lookup`."""

from collections.abc import Iterator

from typedpallas.events import Applied, Context, Event
from typedpallas.rules import _refused
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x_ref, at_ref, o_ref):
    o_ref[...] = jnp.take_along_axis(x_ref[...], at_ref[...], axis=1)
"""
_REGISTER = {-1: (128, "lanes"), -2: (8, "rows")}
"""What a register of 32-bit elements holds along an axis that is counted from the last."""


def _example(columns: int) -> str:
    return module(
        kernel=_KERNEL,
        call=f"pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, {columns}), jnp.float32))(x, at)",
        reference="jnp.take_along_axis(x, at, axis=1)",
        args=(array(f"8, {columns}"), array(f"8, {columns}", "int32")),
        names=("x", "at"),
    )


class WideLookup(Rule):
    """Elements are looked up along an axis that does not lie in one register.

    `jnp.take_along_axis` in a TPU kernel becomes a shuffle of one register: along the last axis of at most 128
    elements, or along the second-to-last of at most 8. More has to be looked up part by part, each where the index
    falls into it; along any other axis, index the ref, or compare and select.

    Machines: TPU, every chip from v2 to 7x. Source: libtpu 0.0.48 ("Multiple source vregs along gather dimension")
    and JAX's Mosaic TPU lowering ("Only gathers along the two minormost dimensions"), asked over extents and axes.
    """

    slug = "wide-lookup"
    judges = (Applied,)
    message = "elements are looked up along axis {axis}: expected {expected}, found {found}"
    example = Example(bad=_example(256), good=_example(128), targets=("tpu-v5e", "tpu-7x"))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Applied)
        if context.machine != "tpu" or event.primitive != "gather" or not event.operands:
            return
        axis, shape = _refused.looked_up(event), event.operands[0].shape
        if axis is None or _refused.refusal(event, context) is not None:
            return
        most, what = _REGISTER.get(axis, (0, ""))
        size = shape[axis]
        extent = None if size is None else size.const
        if most and (extent is None or extent <= most):
            return
        yield self.refuted(
            axis=len(shape) + axis,
            expected=f"at most {most} {what}" if most else "one of the last two axes",
            found=str(extent) if most else f"axis {len(shape) + axis} of {len(shape)}",
            help=f"cut it into parts of {most}, look up in each, and select by the index"
            if most
            else "index the ref along it when it is loaded, or compare and select",
        )
