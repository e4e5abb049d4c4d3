"""`scalar-store-to-vmem`."""

from collections.abc import Iterator

from typedpallas import spaces, tpu
from typedpallas.events import Access, Context, Event
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None:
    o[...] = x[...]
    {store}
"""


def _module(store: str) -> str:
    return module(
        typed="from typedpallas import In, Out, f32\nfrom typedpallas.tpu import VMEM\n",
        args=(array("8, 128"),),
        kernel=_KERNEL.format(store=store),
        call="pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x)",
        reference="x.at[0, 3].set(0.0)",
    )


class ScalarStoreToVmem(Rule):
    """One element is stored to vector memory.

    `VMEM` is written by the vector unit: a store with an integer index for every dim has no vector. Loading one
    element works; storing one does not, be it a constant, a program id or an element of another ref.

    Machines: TPU. Source: JAX's Mosaic TPU lowering refuses it on every chip and for every element type ("Cannot
    store scalars to VMEM"); asked on v4 to 7x.
    """

    slug = "scalar-store-to-vmem"
    judges = (Access,)
    message = "cannot store a scalar to `{name}` in `{space}`: expected a vector, found one element"
    example = Example(
        bad=_module("o[0, 3] = 0.0"),
        good=_module("o[0:1, 3:4] = jnp.zeros((1, 1), jnp.float32)"),
        targets=("tpu-v5e",),
        levels=("types", "trace"),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Access)
        space = event.ref.space
        if event.op != "store" or event.moved != () or space is None or context.machine == "gpu":
            return
        block = issubclass(space, spaces.Portable) and context.machine == "tpu"
        if not block and space is not tpu.VMEM:
            return
        name, rank = event.ref.name, len(event.ref.shape or ())
        index = ", ".join(["i:i+1"] * rank) or "..."
        yield self.refuted(
            name=name,
            space=spaces.name(space),
            expected="a vector",
            found="one element",
            blame="index",
            help=f"keep scalars in `tpu.SMEM`, or store a vector: `{name}[{index}] = ...` with a value of the same "
            "rank, or the whole block through `jnp.where` on an iota",
        )
