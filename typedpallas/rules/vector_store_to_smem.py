"""`vector-store-to-smem`."""

from collections.abc import Iterator

from typedpallas import spaces
from typedpallas.events import Access, Context, Event
from typedpallas.rules._kernels import array, module
from typedpallas.rules._shapes import shown
from typedpallas.rules.base import Example, Finding, Rule
from typedpallas.rules.vector_load_from_smem import zeros

_KERNEL = """
def kernel(x: In[VMEM, f32, L[8], L[128]], o: Out[SMEM, f32, L[1]]) -> None:
    {store}
"""


def _module(store: str) -> str:
    return module(
        machine="tpu",
        typed="from typedpallas import In, Out, f32\nfrom typedpallas.tpu import SMEM, VMEM\n",
        args=(array("8, 128"),),
        kernel=_KERNEL.format(store=store),
        call="""pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((1,), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_specs=pl.BlockSpec(memory_space=pltpu.SMEM),
    )(x)""",
        reference="x[0, 0:1]",
    )


class VectorStoreToSmem(Rule):
    """More than one element is stored to scalar memory at once.

    `SMEM` is written by the scalar unit, one word at a time: the value has rank 0 and every dim an integer index.
    A value of shape `(1,)` is a vector.

    Machines: TPU. Source: JAX's Mosaic TPU lowering refuses any store to SMEM whose value has a rank ("Can only
    store scalars to SMEM"); asked on v4 to 7x for every element type.
    """

    slug = "vector-store-to-smem"
    judges = (Access,)
    message = "cannot store `{found}` to `{name}` in `{space}`: expected a scalar, one integer index for each dim"
    example = Example(
        bad=_module("o[...] = x[0, 0:1]"),
        good=_module("o[0] = x[0, 0]"),
        targets=("tpu-v5e",),
        levels=("types", "trace"),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Access)
        space = event.ref.space
        if event.op != "store" or space is None or space.stores != "scalar" or context.machine == "gpu":
            return
        if not event.moved:
            return
        yield self.refuted(
            name=event.ref.name,
            space=spaces.name(space),
            expected="a scalar",
            found=shown(event.moved, event.ref.dtype),
            blame="index",
            help=f"store one element at a time, `{event.ref.name}[{zeros(event)}] = ...` with a value of rank 0, "
            "or keep the vector in `tpu.VMEM`",
        )
