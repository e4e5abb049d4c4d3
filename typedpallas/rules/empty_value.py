"""`empty-value`."""

from collections.abc import Iterator

from typedpallas.dims import Size
from typedpallas.events import Applied, Context, Event
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x_ref, o_ref):
    o_ref[...] = jnp.roll(x_ref[...], {shift}, axis=0)
"""


def _example(shift: int) -> str:
    return module(
        kernel=_KERNEL.format(shift=shift),
        call="pl.pallas_call(kernel, out_shape=x)(x)",
        reference=f"jnp.roll(x, {shift}, axis=0)",
        args=(array("16, 128"),),
    )


class EmptyValue(Rule):
    """A TPU kernel computes an array without elements.

    A vector of a TPU has at least one element along each axis. Arrays without any come about where a slice has size
    0: `x[:0]`, a `jnp.concatenate` of parts of which one is empty, or `jnp.roll` by 0, which is one. Leave the empty
    part out.

    Machines: TPU, every chip from v2 to 7x. Source: JAX's Mosaic TPU lowering ("Invalid type"), asked about slices,
    concatenations and rolls.
    """

    slug = "empty-value"
    judges = (Applied,)
    message = "`{operation}` makes an array without elements: expected at least one along each axis, found {shape}"
    example = Example(bad=_example(0), good=_example(16 - 1), targets=("tpu-v5e", "tpu-7x"))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Applied)
        if context.machine != "tpu" or context.backend not in (None, "mosaic_tpu"):
            return
        for result in event.results:
            if any(size == Size.of(0) for size in result.shape):
                yield self.refuted(
                    operation=event.primitive,
                    shape=f"({', '.join(map(str, result.shape))}{',' if len(result.shape) == 1 else ''})",
                    help="leave the empty part out",
                )
                return
