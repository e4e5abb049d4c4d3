"""Blocks, index maps and grids."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from cases_public.registry import ANY, H100, V5E, S, Side, case, f32, i32


def _copy(x, o):
    o[...] = x[...]


def _blockwise(kernel: Any, array: tuple[int, ...], grid: tuple[int, ...], block: tuple[int, ...], index: Any) -> Any:
    """One input and one output, cut alike."""
    spec = pl.BlockSpec(block, index)
    return pl.pallas_call(kernel, out_shape=S(*array), grid=grid, in_specs=[spec], out_specs=spec)


def _identity(x: Any) -> Any:
    return x


@case("marin-community/levanter#1166", V5E, "unaligned-lane", S(16, 504), reference=_identity)
def block_of_63_lanes(side: Side) -> Any:
    """A statistic of 63 numbers for each block is tiled along the lanes."""
    if side == "bad":
        return _blockwise(_copy, (16, 504), (2, 8), (8, 63), lambda i, j: (i, j))
    return _blockwise(_copy, (16, 504), (2,), (8, 504), lambda i: (i, 0))


@case("jax-ml/jax#19058", V5E, "unaligned-lane", S(64, 256), reference=jnp.exp)
def block_of_one_lane(side: Side) -> Any:
    """Each program owns one channel of a (time, channel) array."""
    width = 1 if side == "bad" else 128

    def kernel(x, o):
        o[...] = jnp.exp(x[...])

    return _blockwise(kernel, (64, 256), (256 // width,), (64, width), lambda j: (0, j))


@case("jax-ml/jax#38497", ANY, "block-out-of-range", S(8, 512), reference=_identity)
def element_offsets(side: Side) -> Any:
    """The index map multiplies by the block size, which Pallas does too."""
    step = 128 if side == "bad" else 1
    return _blockwise(_copy, (8, 512), (4,), (8, 128), lambda j: (0, j * step))


@case("jax-ml/jax#22173", ANY, "index-map-rank", S(32, 128), reference=_identity)
def index_map_without_the_last_axis(side: Side) -> Any:
    """The trailing zero is forgotten."""
    index: Callable[..., Any] = (lambda i: (i,)) if side == "bad" else (lambda i: (i, 0))
    return _blockwise(_copy, (32, 128), (4,), (8, 128), index)


@case("pytorch/helion#1788", V5E, "block-out-of-range", S(64, 256), reference=_identity)
def grid_axes_swapped(side: Side) -> Any:
    """The loops are reordered, the index maps are not."""
    index: Callable[..., Any] = (lambda a, b: (a, b)) if side == "bad" else (lambda a, b: (b, a))
    return _blockwise(_copy, (64, 256), (2, 8), (8, 128), index)


@case("pytorch/helion#2599", ANY, "block-never-written", S(32, 128), reference=_identity)
def output_map_ignores_the_grid(side: Side) -> Any:
    """Every step writes the first block."""
    index: Callable[..., Any] = (lambda i: (0, 0)) if side == "bad" else (lambda i: (i, 0))
    return pl.pallas_call(
        _copy,
        out_shape=S(32, 128),
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), index),
    )


@case("jax-ml/jax#23099", V5E, "nonconsecutive-revisit", S(4, 32, 128), reference=lambda x: x.sum(0), tolerance=1e-4)
def sum_over_the_outer_axis(side: Side) -> Any:
    """The axis that is summed over comes first: each block is left and visited again."""
    axis = 0 if side == "bad" else 1

    def kernel(x, o):
        @pl.when(pl.program_id(axis) == 0)
        def _():
            o[...] = jnp.zeros_like(o)

        o[...] += x[...]

    def placed(of: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        return (lambda r, i: of(r, i)) if side == "bad" else (lambda i, r: of(r, i))

    return pl.pallas_call(
        kernel,
        out_shape=S(32, 128),
        grid=(4, 4),
        in_specs=[pl.BlockSpec((None, 8, 128), placed(lambda r, i: (r, i, 0)))],
        out_specs=pl.BlockSpec((8, 128), placed(lambda r, i: (i, 0))),
    )


@case("jax-ml/jax#37183", H100, "write-race", S(4, 32), reference=lambda x: x[3:4].sum(1), tolerance=1e-4)
def every_program_into_one_cell(side: Side) -> Any:
    """Four programs of a GPU store to the same element."""

    def racing(x, o):
        o[0] = jnp.sum(x[...])

    def alone(x, o):
        o[0] = jnp.sum(x[3, :])

    if side == "good":
        return pl.pallas_call(alone, out_shape=S(1))
    return pl.pallas_call(
        racing,
        out_shape=S(1),
        grid=(4,),
        in_specs=[pl.BlockSpec((1, 32), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1,), lambda i: (0,)),
    )


@case("pytorch/helion#3126", V5E, "clean", S(32, 1000))
def pipeline_of_ragged_lanes(side: Side) -> Any:
    """A pipeline's blocks are 1000 lanes wide: refused by JAX 0.10.0, taken since."""
    width = 1000 if side == "bad" else 1024

    def kernel(x, o):
        def step(block, out):
            out[...] = block[...] * 2.0

        spec = pl.BlockSpec((8, width), lambda i: (i, 0))
        pltpu.emit_pipeline(step, grid=(4,), in_specs=[spec], out_specs=[spec])(x, o)

    whole = pl.BlockSpec(memory_space=pl.ANY)
    run = pl.pallas_call(kernel, out_shape=S(32, width), in_specs=[whole], out_specs=whole)
    return run if side == "bad" else lambda x: run(jnp.pad(x, ((0, 0), (0, 24))))[:, :1000]


@case("jax-ml/jax#36770", V5E, "clean", S(512), reference=lambda x: x * 2.0)
def slice_of_a_rank_one_block(side: Side) -> Any:
    """Rank-1 blocks sliced at multiples of 128: once 512 was wanted, taken today."""
    if side == "bad":

        def sliced(x, o):
            o[...] = x[pl.ds(pl.program_id(0) * 128, 128)] * 2.0

        return pl.pallas_call(
            sliced,
            out_shape=S(512),
            grid=(4,),
            in_specs=[pl.BlockSpec((512,), lambda i: (0,))],
            out_specs=pl.BlockSpec((128,), lambda i: (i,)),
        )

    def rows(x, o):
        o[...] = x[pl.ds(pl.program_id(0), 1), :][None] * 2.0

    run = pl.pallas_call(
        rows,
        out_shape=S(4, 1, 128),
        grid=(4,),
        in_specs=[pl.BlockSpec((4, 128), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((1, 1, 128), lambda i: (i, 0, 0)),
    )
    return lambda x: run(x.reshape(4, 128)).reshape(512)


@case(
    "pytorch/helion#2104",
    V5E,
    "index-out-of-bounds",
    S(40, 128),
    reference=lambda x: x.sum(0, keepdims=True),
    tolerance=1e-4,
)
def window_past_the_end(side: Side) -> Any:
    """Windows of 16 rows walk over 40 rows; the last one ends at 48."""
    rows = 40 if side == "bad" else 48

    def kernel(x, o):
        def step(k, total):
            return total + jnp.sum(x[pl.ds(k * 16, 16), :], axis=0, keepdims=True)

        o[...] = lax.fori_loop(0, pl.cdiv(rows, 16), step, jnp.zeros((1, 128), f32))

    run = pl.pallas_call(kernel, out_shape=S(1, 128))
    return run if side == "bad" else lambda x: run(jnp.pad(x, ((0, 8), (0, 0))))


@case(
    "pytorch/helion#2213",
    V5E,
    "index-out-of-bounds",
    S(1, dtype=i32),
    S(48, 128),
    verdict="open",  # right where the first row is 0, and only there: data tells
    reference=lambda begin, x: x[8:].sum(0, keepdims=True),
    inputs=(jnp.array([8], i32), jnp.arange(48 * 128, dtype=f32).reshape(48, 128) / 1000),
    tolerance=1e-4,
)
def windows_from_a_later_start(side: Side) -> Any:
    """Padding for windows from row 0 is too short for windows from row 8."""

    def kernel(begin, x, o):
        def step(k, total):
            start = begin[0] + k * 16
            row = start + lax.broadcasted_iota(i32, (16, 128), 0)
            return total + jnp.sum(jnp.where(row < 48, x[pl.ds(start, 16), :], 0.0), axis=0, keepdims=True)

        o[...] = lax.fori_loop(0, 3, step, jnp.zeros((1, 128), f32))

    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)]
    run = pl.pallas_call(kernel, out_shape=S(1, 128), in_specs=specs)
    return run if side == "bad" else lambda begin, x: run(begin, jnp.pad(x, ((0, 16), (0, 0))))
