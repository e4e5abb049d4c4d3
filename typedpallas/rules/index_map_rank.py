"""`index-map-rank`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, IndexMap
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((1024, 512), jnp.float32),)

def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2.0

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((1024, 512), jnp.float32),
        grid=(4,),
        in_specs=[pl.BlockSpec((256, 512), lambda i: {blocks})],
        out_specs=pl.BlockSpec((256, 512), lambda i: (i, 0)),
    )(x)

def reference(x):
    return x * 2.0
"""


class IndexMapRank(Rule):
    """An index map returns another number of block indices than the block has dims.

    It returns one block index for each dim of the array, squeezed dims too.

    Machines: all. Source: Pallas refuses it while it traces the map.
    """

    slug = "index-map-rank"
    judges = (IndexMap,)
    message = "the index map of `{name}` returns {found}: expected {expected}, one for each dim of the block"
    example = Example(
        bad=_KERNEL.format(blocks="(i,)"),
        good=_KERNEL.format(blocks="(i, 0)"),
        targets=("tpu-v5e",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, IndexMap)
        rank = len(event.block)
        if event.results is None or event.results == rank:
            return
        block = ", ".join("None" if dim == "squeezed" else str(dim) for dim in event.block)
        short = rank - event.results
        edit = f"append {short} zero{'s' if short > 1 else ''}" if short > 0 else f"drop {-short} of them"
        yield self.refuted(
            blame="map",
            name=event.name,
            found=f"{event.results} block ind{'ex' if event.results == 1 else 'ices'}",
            expected=rank,
            notes=(f"the block is ({block})",),
            help=f"{edit}: a dim that is whole in every block has index 0",
        )
