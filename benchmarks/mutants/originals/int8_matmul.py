"""An int8 product summed in int32, then scaled by a factor for each column."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TARGETS = ("tpu-v5p", "tpu-v5e", "tpu-v6e")
M, K, N = 128, 512, 256
BM, BK, BN = 64, 128, 128
ARGS = (
    jax.ShapeDtypeStruct((M, K), jnp.int8),
    jax.ShapeDtypeStruct((K, N), jnp.int8),
    jax.ShapeDtypeStruct((1, N), jnp.float32),
)


def kernel(x_ref, y_ref, scale_ref, out_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros((BM, BN), jnp.int32)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.int32)

    @pl.when(pl.program_id(2) == K // BK - 1)
    def _():
        out_ref[...] = acc_ref[...].astype(jnp.float32) * scale_ref[...]


def run(x, y, scale, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        grid=(M // BM, N // BN, K // BK),
        in_specs=[
            pl.BlockSpec((BM, BK), lambda i, j, k: (i, k)),
            pl.BlockSpec((BK, BN), lambda i, j, k: (k, j)),
            pl.BlockSpec((1, BN), lambda i, j, k: (0, j)),
        ],
        out_specs=pl.BlockSpec((BM, BN), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((BM, BN), jnp.int32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
        interpret=interpret,
    )(x, y, scale)


def reference(x, y, scale):
    return jnp.dot(x, y, preferred_element_type=jnp.int32).astype(jnp.float32) * scale
