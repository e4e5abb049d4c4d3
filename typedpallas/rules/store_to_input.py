"""`store-to-input`."""

from collections.abc import Iterator

from typedpallas.events import Access, Context, Event
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None:
    {body}
"""


def _module(body: str) -> str:
    return module(
        typed="from typedpallas import In, Out, f32\nfrom typedpallas.tpu import VMEM\n",
        args=(array("8, 128"),),
        kernel=_KERNEL.format(body=body),
        call="pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x)",
        reference="x * 2.0",
    )


class StoreToInput(Rule):
    """A kernel stores to a ref that it declares as an input.

    `In` promises that the kernel leaves the operand alone. On a TPU such a store changes the block in VMEM and is
    lost; on a GPU it changes the caller's array, which JAX takes for immutable. Kernels that say nothing about
    direction are not judged: using an input's block as room for work is legal on a TPU.

    Machines: all. Source: the annotation. The compilers take such a store on TPU and GPU without a word.
    """

    slug = "store-to-input"
    judges = (Access,)
    message = "cannot store to `{name}`: expected an `Out`, an `InOut` or a `Scratch`, found an `In`"
    example = Example(
        bad=_module("x[...] = x[...] * 2.0\n    o[...] = x[...]"),
        good=_module("o[...] = x[...] * 2.0"),
        targets=("tpu-v5e",),
        levels=("types", "trace"),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Access)
        if event.op != "store" or event.ref.direction != "in":
            return
        yield self.refuted(
            name=event.ref.name,
            expected="an `Out`, an `InOut` or a `Scratch`",
            found="an `In`",
            help=f"store to an output or a scratch buffer; or annotate `{event.ref.name}` as `InOut` and alias it "
            "with an output",
        )
