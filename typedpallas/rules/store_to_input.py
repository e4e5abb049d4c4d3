"""`store-to-input`."""

from collections.abc import Iterator

from typedpallas.events import Access, Context, Event, StoredInput
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
    """A kernel stores to a ref that it declares as an input, or on a GPU to an array of its caller.

    `In` promises that the kernel leaves the operand alone. On a TPU such a store changes the block in VMEM and is
    lost; on a GPU it changes the caller's array, which JAX takes for immutable: its next use sees other numbers. So
    on a GPU a store to an argument of the whole function is refused also where the kernel says nothing about
    direction, unless an output shares its memory or the caller gives it away. On a TPU kernels that say nothing are
    not judged: using an input's block as room for work is legal there.

    Machines: all. Source: the annotation. The compilers take such a store on TPU and GPU without a word; on an H200
    the caller's array had changed after a Triton and after a Mosaic GPU kernel.
    """

    slug = "store-to-input"
    judges = (Access, StoredInput)
    message = "cannot store to `{name}`: expected an `Out`, an `InOut` or a `Scratch`, found {found}"
    example = Example(
        bad=_module("x[...] = x[...] * 2.0\n    o[...] = x[...]"),
        good=_module("o[...] = x[...] * 2.0"),
        targets=("tpu-v5e",),
        levels=("types", "trace"),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, StoredInput):
            yield self._of_caller(event)
            return
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

    def _of_caller(self, event: StoredInput) -> Finding:
        whose = f"the caller's `{event.argument}`" if event.argument else "an array of the caller"
        return self.refuted(
            name=event.name,
            expected="an `Out`, an `InOut` or a `Scratch`",
            found=f"an input, {whose}",
            help="store to an output or a scratch buffer; or share its memory with an output, by "
            "`input_output_aliases`, `InOut`, or a `jax.new_ref` of it",
        )
