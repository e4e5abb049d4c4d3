"""`block-out-of-range`."""

import itertools
from collections.abc import Iterator

from typedpallas import solve
from typedpallas.dims import Facts, Size
from typedpallas.events import Context, Event, IndexMap, Visits
from typedpallas.rules import _blocks
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((4096, 512), jnp.float32),)

def kernel(x_ref, o_ref):
    o_ref[...] = jnp.maximum(x_ref[...], 0.0)

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((4096, 512), jnp.float32),
        grid=(16,),
        in_specs=[pl.BlockSpec((256, 512), lambda i: ({index}, 0))],
        out_specs=pl.BlockSpec((256, 512), lambda i: (i, 0)),
    )(x)

def reference(x):
    return jnp.maximum(x, 0.0)
"""


class BlockOutOfRange(Rule):
    """An index map points at a block that starts outside of its array.

    Index maps return block indices, not element offsets: block `i` of 256 rows starts at row `256 * i`. A block
    that starts inside and hangs over the end is a partial last block, which is legal.

    On a TPU such a copy stops the core, or reads what lies there; Triton reads and writes past the array; interpret
    mode moves the block back inside and computes other numbers. Copies of Mosaic GPU fill with zeros and drop what
    is outside, and a Triton kernel may mask its accesses: those are left open.

    A map may read its block from a table that is fetched ahead. Where the table follows from constants, or from
    arrays that `tp.check` is given, it is followed. Where it is computed from data, the operations that make it may
    bound it (a clamp, a remainder, the indices of a sort). Else the verdict is left open; a promise closes it:
    `tp.check(fn, *args, assume={"table_ref": (0, 63)})`.

    Machines: all. Source: the definition of `pl.BlockSpec`; JAX's interpret modes.
    """

    slug = "block-out-of-range"
    judges = (IndexMap,)
    message = "the index map of `{name}` leaves the array on axis {axis}: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(index="i * 256"),
        good=_KERNEL.format(index="i"),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, IndexMap)
        if event.visits is not None:
            yield from self._visited(event, event.visits, context)
        elif event.in_range:
            return
        elif event.reads:
            tables = " and ".join(f"`{name}`" for name in event.reads)
            verb = "hold" if len(event.reads) > 1 else "holds"
            others = ", ".join(f"`{name}`" for name in event.alike)
            yield self.open(
                blame="map",
                name=event.name,
                axis="0" if len(event.block) == 1 else "some",
                expected="block indices in range",
                found=f"indices read from {tables}",
                notes=(f"so are those of {others}",) if others else (),
                help=f"it is right if {tables} {verb} block indices of `{event.name}` wherever the grid goes",
            )
        elif event.affine is not None and event.grid is not None:
            yield from self._symbolic(event, context.facts)

    def _visited(self, event: IndexMap, visits: Visits, context: Context) -> Iterator[Finding]:
        if visits.outside is None:
            return
        point, index, axis = visits.outside
        block, array = _blocks.size_of(event.block[axis]), event.array[axis]
        assert block is not None and array is not None
        harmless = context.backend == "mosaic_gpu" or (event.guarded and context.machine != "tpu")
        make = self.open if harmless else self.refuted
        yield make(
            blame="map",
            name=event.name,
            axis=axis,
            expected=f"block indices 0 to {visits.blocks[axis] - 1}",
            found=index[axis],
            notes=_filled(event),
            witness=f"grid point {_tuple(point)} gives block {_tuple(index)}, which starts at element "
            f"{index[axis] * (block.const or 1)} of {array} on axis {axis}",
            help=_help(index[axis], block.const or 1, visits.blocks[axis]),
        )

    def _symbolic(self, event: IndexMap, facts: Facts) -> Iterator[Finding]:
        """Each result at the corners of the grid, where a polynomial of degree one has its extremes."""
        assert event.affine is not None and event.grid is not None
        for axis, result in enumerate(event.affine):
            block, array = _blocks.size_of(event.block[axis]), event.array[axis]
            if result is None or block is None or array is None or _walks_whole(result, block, array, event.grid):
                continue
            for corner in _corners(result, event.grid):
                index = result.substitute(corner)
                after = solve.at_most(index * block, array - 1, facts)
                outside = after if isinstance(after, solve.Refuted) else solve.at_most(0 * block, index, facts)
                if isinstance(outside, solve.Refuted):
                    bound = f"before element {array}" if outside is after else "at element 0 or later"
                    at = ", ".join(f"{name} = {value}" for name, value in corner.items())
                    yield self.refuted(
                        blame="map",
                        name=event.name,
                        axis=axis,
                        expected=f"blocks that start {bound}",
                        found=f"block {index}, which starts at element {index * block}",
                        witness=", ".join([at, *(f"{name} = {value}" for name, value in outside.witness.items())]),
                        help="return block indices, not element offsets, and stop the grid with the array",
                    )
                    break


def _filled(event: IndexMap) -> tuple[str, ...]:
    """A note on the entries of tables that lead there."""
    if not event.entries:
        return ()
    return (f"there {' and '.join(f'`{entry}` holds {value}' for entry, value in event.entries)}",)


def _walks_whole(result: Size, block: Size, array: Size, grid: tuple[Size | None, ...]) -> bool:
    """Whether the result is one grid id that runs over just the array's blocks."""
    for axis, extent in enumerate(grid):
        if result == Size.of(f"g{axis}"):
            return extent is not None and extent in (array // block, array.cdiv(block))
    return False


def _corners(result: Size, grid: tuple[Size | None, ...]) -> Iterator[dict[str, Size]]:
    names = [f"g{axis}" for axis in range(len(grid)) if f"g{axis}" in result.names]
    ends = [grid[int(name[1:])] for name in names]
    if any(end is None for end in ends) or any(len(monomial) > 1 for monomial, _ in result.terms):
        return
    for chosen in itertools.product(*((end - 1, Size.of(0)) for end in ends if end is not None)):
        yield dict(zip(names, chosen, strict=True))


def _tuple(values: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def _help(index: int, block: int, blocks: int) -> str:
    if index < 0:
        return "block indices count from 0: clamp the index with `jnp.maximum(index, 0)`"
    if block > 1 and index % block == 0 and index // block < blocks:
        return f"index maps return block indices, not element offsets: return {index // block} where it is {index}"
    return f"the axis has {blocks} block{'s' if blocks > 1 else ''}: end the grid there, or fix the order of its ids"
