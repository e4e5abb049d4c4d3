"""`vector-load-from-smem`."""

from collections.abc import Iterator

from typedpallas import spaces
from typedpallas.events import Access, Context, Event
from typedpallas.rules._kernels import array, module
from typedpallas.rules._shapes import shown
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(
    scales: In[SMEM, f32, L[4]], x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]]
) -> None:
    o[...] = x[...] * {scale}
"""


def _module(scale: str) -> str:
    return module(
        machine="tpu",
        typed="from typedpallas import In, Out, f32\nfrom typedpallas.tpu import SMEM, VMEM\n",
        names=("scales", "x"),
        args=(array("4,"), array("8, 128")),
        kernel=_KERNEL.format(scale=scale),
        call="""pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)],
    )(scales, x)""",
        reference="x * scales[0]",
    )


class VectorLoadFromSmem(Rule):
    """More than one element is loaded from scalar memory at once.

    `SMEM` is read by the scalar unit, one word at a time: every dim needs an integer index. A slice of length 1 is
    a vector too, and so is `ref[...]` of shape `(1,)`; `ref[...]` of rank 0 is a scalar.

    Machines: TPU. Source: JAX's Mosaic TPU lowering refuses any load from SMEM whose result has a rank ("Can only
    load scalars from SMEM"); asked on v4 to 7x for every element type.
    """

    slug = "vector-load-from-smem"
    judges = (Access,)
    message = "cannot load `{found}` from `{name}` in `{space}`: expected a scalar, one integer index for each dim"
    example = Example(
        bad=_module("scales[0:1]"),
        good=_module("scales[0]"),
        targets=("tpu-v5e",),
        levels=("types", "trace"),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Access)
        space = event.ref.space
        if event.op != "load" or space is None or space.loads != "scalar" or context.machine == "gpu":
            return
        if not event.moved:
            return
        yield self.refuted(
            name=event.ref.name,
            space=spaces.name(space),
            expected="a scalar",
            found=shown(event.moved, event.ref.dtype),
            blame="index",
            help=f"index it with integers, `{event.ref.name}[{zeros(event)}]`, or keep the vector in `tpu.VMEM`",
        )


def zeros(access: Access) -> str:
    """An index of integers that selects one element."""
    rank = len(access.ref.shape) if access.ref.shape is not None else len(access.moved or ())
    return ", ".join(["0"] * rank) or "..."
