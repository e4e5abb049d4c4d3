"""`index-dtype`."""

from collections.abc import Iterator

from typedpallas import dtypes
from typedpallas.events import Context, Event, Index
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(row: In[SMEM, i32, L[1]], x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[1], L[128]]) -> None:
    {index}
    o[...] = x[pl.ds(i, 1), :]
"""


def _module(index: str) -> str:
    return module(
        machine="tpu",
        typed="from typedpallas import In, Out, f32, i32\nfrom typedpallas.tpu import SMEM, VMEM\n",
        names=("row", "x"),
        args=(array("1,", "int32"), array("8, 128")),
        kernel=_KERNEL.format(index=index),
        call="""pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((1, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)],
    )(row, x)""",
        reference="jax.lax.dynamic_slice_in_dim(x, row[0] // 2, 1)",
    )


class IndexDtype(Rule):
    """A ref is indexed with a number that is no integer, or an index map returns one.

    `/` on integers, and arithmetic with a float, give a float; JAX's tracing lets it pass as an index of a ref, but
    not as an index of a block.

    Machines: TPU; all for index maps. Source: JAX's tracing of index maps; for refs, JAX's Mosaic TPU lowering fails
    its own verification ("arith.index_cast" on f32), and the compiler refuses booleans; asked on v5e. Triton converts
    the number, so there the rule is silent about refs.
    """

    slug = "index-dtype"
    judges = (Index,)
    message = "{what} of `{name}` is no integer: expected {expected}, found `{found}`"
    example = Example(
        bad=_module("i = row[0] / 2"),
        good=_module("i = row[0] // 2"),
        targets=("tpu-v5e",),
        levels=("trace",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Index)
        if context.backend != "mosaic_tpu" and context.machine != "tpu" and not event.of_block:
            return
        wrong = next((name for name in event.dtypes if not _is_integer(name)), None)
        if wrong is None:
            return
        yield self.refuted(
            what="the block index" if event.of_block else "the index",
            name=event.name,
            expected="`i32`",
            found=dtypes.short(wrong),
            blame="map" if event.of_block else "index",
            help="use `//` where `/` made it a float, or `.astype(jnp.int32)`",
        )


def _is_integer(name: str) -> bool:
    marker = dtypes.from_jax_name(name)
    return marker is None or issubclass(marker, dtypes.Integer)
