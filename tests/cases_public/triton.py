"""What Triton, and Mosaic GPU, cannot do with a value."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import triton as plt

from cases_public.registry import H100, T4, S, Side, case, f32, i32


@case("jax-ml/jax#19222", H100, "not-power-of-two", S(8, 96), reference=lambda x: x + 1.0)
def block_of_96_columns(side: Side) -> Any:
    """Triton's tensors have power-of-two sizes (and a block of 128 would store past the array's end)."""

    def kernel(x, o):
        o[...] = x[...] + 1.0

    if side == "bad":
        return pl.pallas_call(kernel, out_shape=S(8, 96))
    part = pl.BlockSpec((8, 32), lambda j: (0, j))
    return pl.pallas_call(kernel, out_shape=S(8, 96), grid=(3,), in_specs=[part], out_specs=part)


@case("jax-ml/jax#19214", H100, "primitive-not-on-target", S(16), reference=lambda x: x[:8])
def slice_of_a_value(side: Side) -> Any:
    """A loaded value cannot be sliced; the ref can."""

    def kernel(x, o):
        o[...] = x[...][0:8] if side == "bad" else x[0:8]

    return pl.pallas_call(kernel, out_shape=S(8))


def _added(rows: jax.Array, values: jax.Array, start: jax.Array) -> jax.Array:
    return start.at[rows].add(values)


@case(
    "jax-ml/jax#24117",
    H100,
    "clean",
    S(4, dtype=i32),
    S(4),
    S(4),
    reference=_added,
    inputs=(jnp.array([0, 1, 1, 3], i32), jnp.ones(4, f32), jnp.zeros(4, f32)),
)
def atomic_add_of_equal_rows(side: Side) -> Any:
    """One atomic add with a repeated row: right on the GPU, wrong in interpret mode, which counts it once."""

    def at_once(rows, values, start, o):
        plt.atomic_add(o, (rows[...],), values[...])

    def one_by_one(rows, values, start, o):
        for k in range(4):
            plt.atomic_add(o, (rows[k],), values[k])

    kernel = at_once if side == "bad" else one_by_one
    return pl.pallas_call(kernel, out_shape=S(4), input_output_aliases={2: 0})


@case("jax-ml/jax#26799", T4, "backend-not-on-target", S(8), S(8))
def addition_on_an_old_card(side: Side) -> Any:
    """Triton starts with compute capability 8.0; on a T4 the kernel has to be one of Mosaic GPU's."""

    def kernel(a, b, o):
        o[...] = a[...] + b[...]

    if side == "bad":
        return pl.pallas_call(kernel, out_shape=S(8))

    return plgpu.kernel(kernel, out_type=S(64, 128)), (S(64, 128), S(64, 128))


@case("jax-ml/jax#23173", H100, "clean", S(8, 128), reference=lambda x: jnp.tanh(x * 0.1))
def erf_inv(side: Side) -> Any:
    """Once without a lowering rule; there is one today."""

    def kernel(x, o):
        o[...] = jax.lax.erf_inv(x[...] * 0.1) if side == "bad" else jnp.tanh(x[...] * 0.1)

    return pl.pallas_call(kernel, out_shape=S(8, 128))


@case("jax-ml/jax#27224", H100, "index-out-of-bounds", S(16, 192), reference=lambda x: x.max(1))
def maximum_over_a_ragged_tail(side: Side) -> Any:
    """Windows of 128 columns over 192: the second one reads 64 columns that are not there."""

    def kernel(x, o):
        def step(k, best):
            window = pl.ds(k * 128, 128)
            if side == "bad":
                return jnp.maximum(best, jnp.max(x[:, window], axis=1))
            column = k * 128 + jnp.arange(128)
            inside = jnp.broadcast_to(column[None, :] < 192, (16, 128))
            return jnp.maximum(best, jnp.max(plt.load(x.at[:, window], mask=inside, other=-1e30), axis=1))

        o[...] = jax.lax.fori_loop(0, pl.cdiv(192, 128), step, jnp.full((16,), -1e30, f32))

    return pl.pallas_call(kernel, out_shape=S(16))


@case("jax-ml/jax#20154", H100, "result-never-stored", S(126, 16), reference=lambda x: x + 1.0)
def rows_that_no_program_owns(side: Side) -> Any:
    """126 // 32 programs of 32 rows leave 30 rows unwritten."""

    def by_hand(x, o):
        rows = pl.ds(pl.program_id(0) * 32, 32)
        o[rows, :] = x[rows, :] + 1.0

    def by_block(x, o):
        o[...] = x[...] + 1.0

    if side == "bad":
        return pl.pallas_call(by_hand, out_shape=S(126, 16), grid=(126 // 32,))
    spec = pl.BlockSpec((32, 16), lambda i: (i, 0))
    return pl.pallas_call(by_block, out_shape=S(126, 16), grid=(pl.cdiv(126, 32),), in_specs=[spec], out_specs=spec)


@case(
    "jax-ml/jax#24292",
    H100,
    "primitive-not-on-target",
    S(16),
    reference=lambda x: jnp.concatenate([jnp.zeros(8, f32), x[:8]]),
)
def concatenation(side: Side) -> Any:
    """Triton joins only columns of width 1."""

    def kernel(x, o):
        if side == "bad":
            o[...] = jnp.concatenate([jnp.zeros((8,), f32), x[0:8]])
            return
        place = jnp.arange(16)
        o[...] = jnp.where(place >= 8, x[jnp.maximum(place - 8, 0)], 0.0)

    return pl.pallas_call(kernel, out_shape=S(16))


@case("jax-ml/jax#39997", H100, "register-layout", S(4, 128, 32))
def sum_over_the_middle_of_three_axes(side: Side) -> Any:
    """Mosaic GPU's tiled layouts are for the last two axes."""
    transforms = (plgpu.TilingTransform((8, 32)), plgpu.SwizzleTransform(128))

    def of_three(x, o, buffer):
        buffer[...] = jnp.zeros((4, 128, 32), f32)
        value = buffer[...]
        total = jnp.sum(value, axis=1)
        o[...] = value - jax.lax.broadcast_in_dim(total, (4, 128, 32), (0, 2))

    def of_two(x, o, buffer):
        buffer[...] = jnp.zeros((128, 32), f32)
        for i in range(4):
            o[i] = buffer[...]

    shape = (4, 128, 32) if side == "bad" else (128, 32)
    return plgpu.kernel(
        of_three if side == "bad" else of_two,
        out_type=S(4, 128, 32),
        scratch_types=[plgpu.SMEM(shape, f32, transforms=transforms)],
        compiler_params=plgpu.CompilerParams(lowering_semantics=plgpu.LoweringSemantics.Warpgroup),
    )
