"""`rank-mismatch`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, Index
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x: In[BLOCK, f32, L[8], L[128]], o: Out[BLOCK, f32, L[8], L[128]]) -> None:
    o[...] = x[{index}] * 2.0
"""


def _module(index: str) -> str:
    return module(
        typed="from typedpallas import BLOCK, In, Out, f32\n",
        args=(array("8, 128"),),
        kernel=_KERNEL.format(index=index),
        call="pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x)",
        reference="x * 2.0",
    )


class RankMismatch(Rule):
    """A ref is indexed with more parts than it has dims.

    A squeezed block dim is not there in the kernel: the ref of a block `(None, 8, 128)` has two dims.

    Machines: all. Source: JAX's indexing of refs refuses it while tracing.
    """

    slug = "rank-mismatch"
    judges = (Index,)
    message = "`{name}` has too many indices: expected at most {expected}, found {found}"
    example = Example(
        bad=_module("0, :, :"),
        good=_module(":, :"),
        targets=("tpu-v5e", "h100"),
        levels=("trace",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Index)
        if event.given <= event.rank:
            return
        yield self.refuted(
            name=event.name,
            expected=event.rank,
            found=event.given,
            blame="index",
            help="leave out the index of a squeezed dim, or take everything: `[...]`",
        )
