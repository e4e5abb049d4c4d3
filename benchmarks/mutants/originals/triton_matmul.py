"""A matrix product through Triton: a loop over the summed axis inside the program."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

TARGETS = ("h100", "a100")
M, K, N = 128, 256, 128
BM, BK, BN = 64, 32, 64
ARGS = (jax.ShapeDtypeStruct((M, K), jnp.float16), jax.ShapeDtypeStruct((K, N), jnp.float16))


def kernel(x_ref, y_ref, out_ref):
    def step(i, acc):
        x = x_ref[:, pl.ds(i * BK, BK)]
        y = y_ref[pl.ds(i * BK, BK), :]
        return acc + jnp.dot(x, y, preferred_element_type=jnp.float32)

    acc = jax.lax.fori_loop(0, K // BK, step, jnp.zeros((BM, BN), jnp.float32))
    out_ref[...] = acc.astype(jnp.float16)


def run(x, y, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float16),
        grid=(M // BM, N // BN),
        in_specs=[pl.BlockSpec((BM, K), lambda i, j: (i, 0)), pl.BlockSpec((K, BN), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((BM, BN), lambda row, column: (row, column)),
        compiler_params=plt.CompilerParams(num_warps=4, num_stages=2),
        interpret=interpret,
    )(x, y)


def reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(jnp.float16)
