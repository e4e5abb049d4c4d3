"""A transpose, block by block: the two index maps mirror each other."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TARGETS = ("tpu-v5p", "tpu-v5e", "tpu-7x")
M, N, SIDE = 256, 512, 128
ARGS = (jax.ShapeDtypeStruct((M, N), jnp.float32),)


def kernel(x_ref, out_ref):
    out_ref[...] = x_ref[...].T


def run(x, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((N, M), jnp.float32),
        grid=(M // SIDE, N // SIDE),
        in_specs=[pl.BlockSpec((SIDE, SIDE), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((SIDE, SIDE), lambda i, j: (j, i)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        interpret=interpret,
    )(x)


def reference(x):
    return x.T
