"""`block-never-written`."""

import math
from collections.abc import Iterator

from typedpallas.events import Context, Event, IndexMap
from typedpallas.rules import _blocks
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((4096, 512), jnp.float32),)
BLOCK = pl.BlockSpec((256, 512), lambda i: (i, 0))

def kernel(x_ref, o_ref):
    o_ref[...] = jnp.exp(x_ref[...])

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((4096, 512), jnp.float32),
        grid=({steps},),
        in_specs=[BLOCK],
        out_specs=BLOCK,
    )(x)

def reference(x):
    return jnp.exp(x)
"""


class BlockNeverWritten(Rule):
    """No grid point maps to some block of an output, so that part of the result is whatever memory held.

    The grid ends too early, or the output's index map ignores a grid axis. An output that reuses an input's memory
    (`input_output_aliases`) keeps the old content there, which is legal. Where the caller may cut the unwritten part
    off, the verdict is left open, and where the output's blocks are read from a table that is not known; `tp.check`
    follows the tables of a call that it is given arrays for.

    Machines: all. Source: the definition of `pl.BlockSpec`; JAX's interpret modes show NaN or zeros there.
    """

    slug = "block-never-written"
    judges = (IndexMap,)
    message = "part of `{name}` is never written: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(steps=8),
        good=_KERNEL.format(steps=16),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, IndexMap)
        visits = event.visits
        if event.role == "out" and visits is None and event.in_range and not event.aliased:
            yield from self._by_tables(event)
        if event.role != "out" or visits is None or visits.missing is None or event.aliased:
            return
        if visits.outside is not None or event.whole_result is False:
            return  # the defect that `block-out-of-range` names, or nobody looks
        total = math.prod(visits.blocks)
        make = self.refuted if event.whole_result else self.open
        yield make(
            blame="map",
            name=event.name,
            expected=f"all {total} blocks",
            found=f"{visits.missing_count} that no grid point visits",
            witness=f"block {_tuple(visits.missing)} holds {_elements(event, visits.missing)}",
            help=f"`{event.name}` has {' x '.join(map(str, visits.blocks))} blocks: let the grid and the index map "
            "reach each of them",
        )

    def _by_tables(self, event: IndexMap) -> Iterator[Finding]:
        """Which blocks are visited hangs on what tables hold."""
        if event.whole_result is False:
            return
        tables = " and ".join(f"`{name}`" for name in event.reads)
        yield self.open(
            blame="map",
            name=event.name,
            expected="every block visited",
            found=f"indices read from {tables}",
            notes=(f"so are those of {', '.join(f'`{name}`' for name in event.alike)}",) if event.alike else (),
            help=f"it is right if {tables} {'lead' if len(event.reads) > 1 else 'leads'} to each block of "
            f"`{event.name}`: check the call with the arrays that it is made with, not only with their shapes",
        )


def _tuple(values: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def _elements(event: IndexMap, index: tuple[int, ...]) -> str:
    parts = []
    for axis, (place, dim, extent) in enumerate(zip(index, event.block, event.array, strict=True)):
        size = _blocks.size_of(dim)
        if size is None or extent is None or size.const is None or extent.const is None:
            continue
        start = place * size.const
        parts.append(f"{start}:{min(start + size.const, extent.const)} of axis {axis}")
    return f"elements {', '.join(parts)}"
