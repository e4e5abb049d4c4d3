"""Running sums down the rows; the sum so far is carried from block to block in scratch."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TARGETS = ("tpu-v5p", "tpu-v5e", "tpu-7x")
ROWS, COLUMNS, BLOCK = 64, 256, 16
ARGS = (jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.float32),)


def kernel(x_ref, out_ref, carry_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        carry_ref[...] = jnp.zeros((1, COLUMNS), jnp.float32)

    def add_row(row, total):
        total = total + x_ref[pl.ds(row, 1), :]
        out_ref[pl.ds(row, 1), :] = total
        return total

    carry_ref[...] = jax.lax.fori_loop(0, BLOCK, add_row, carry_ref[...])


def run(x, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.float32),
        grid=(ROWS // BLOCK,),
        in_specs=[pl.BlockSpec((BLOCK, COLUMNS), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((BLOCK, COLUMNS), lambda row: (row, 0)),
        scratch_shapes=[pltpu.VMEM((1, COLUMNS), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)),
        interpret=interpret,
    )(x)


def reference(x):
    return jnp.cumsum(x, axis=0)
