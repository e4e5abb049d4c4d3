"""`index-map-arity`."""

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
        grid=(4, 2),
        in_specs=[pl.BlockSpec((256, 256), {index_map})],
        out_specs=pl.BlockSpec((256, 256), lambda i, j: (i, j)),
    )(x)

def reference(x):
    return x * 2.0
"""


class IndexMapArity(Rule):
    """An index map takes another number of arguments than the launch gives it.

    It gets one id for each grid axis, and then each scalar-prefetch operand.

    Machines: all. Source: Pallas calls it so, and Python refuses the call.
    """

    slug = "index-map-arity"
    judges = (IndexMap,)
    message = "the index map of `{name}` takes {found}: expected {expected}"
    example = Example(
        bad=_KERNEL.format(index_map="lambda i: (i, 0)"),
        good=_KERNEL.format(index_map="lambda i, j: (i, j)"),
        targets=("tpu-v5e",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, IndexMap)
        if event.grid is None or event.parameters == len(event.grid) + event.prefetched:
            return
        names = [f"g{axis}" for axis in range(len(event.grid))]
        names += [f"scalars{k}" if event.prefetched > 1 else "scalars" for k in range(event.prefetched)]
        extra = f" and {event.prefetched} for the scalar-prefetch operands" if event.prefetched else ""
        yield self.refuted(
            blame="map",
            name=event.name,
            found=_arguments(event.parameters),
            expected=f"{len(event.grid)}, one for each grid axis{extra}",
            notes=(f"the grid is ({', '.join('?' if n is None else str(n) for n in event.grid)})",),
            help=f"write it as `lambda {', '.join(names)}: ({', '.join('...' for _ in event.block)})`",
        )


def _arguments(count: int) -> str:
    return f"{count} argument{'' if count == 1 else 's'}"
