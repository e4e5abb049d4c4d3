"""Softmax of a row for each program, through Triton: 1000 columns in a block of 1024, masked."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

TARGETS = ("h100", "a100")
ROWS, COLUMNS, WIDTH = 16, 1000, 1024
ARGS = (jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.float32),)


def kernel(x_ref, out_ref):
    inside = jnp.arange(WIDTH) < COLUMNS
    x = plt.load(x_ref.at[pl.ds(0, WIDTH)], mask=inside, other=-jnp.inf)
    weights = jnp.exp(x - jnp.max(x))
    plt.store(out_ref.at[pl.ds(0, WIDTH)], weights / jnp.sum(weights), mask=inside)


def run(x, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.float32),
        grid=(ROWS,),
        in_specs=[pl.BlockSpec((None, COLUMNS), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((None, COLUMNS), lambda row: (row, 0)),
        compiler_params=plt.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
    )(x)


def reference(x):
    return jax.nn.softmax(x, axis=-1)
