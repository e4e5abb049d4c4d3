"""Softmax of whole rows."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TARGETS = ("tpu-v5p", "tpu-v5e", "tpu-7x")
ROWS, COLUMNS = 64, 384
ARGS = (jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.float32),)
BLOCK_ROWS = 8


def kernel(x_ref, out_ref):
    x = x_ref[...]
    weights = jnp.exp(x - jnp.max(x, axis=1, keepdims=True))
    out_ref[...] = weights / jnp.sum(weights, axis=1, keepdims=True)


def run(x, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.float32),
        grid=(ROWS // BLOCK_ROWS,),
        in_specs=[pl.BlockSpec((BLOCK_ROWS, COLUMNS), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((BLOCK_ROWS, COLUMNS), lambda row: (row, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        interpret=interpret,
    )(x)


def reference(x):
    return jax.nn.softmax(x, axis=-1)
