"""Layer norm over 1000 features in blocks of 1024: what lies past the end is masked out of both sums."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TARGETS = ("tpu-v5p", "tpu-v5e", "tpu-7x")
ROWS, FEATURES, WIDTH = 32, 1000, 1024
ARGS = (
    jax.ShapeDtypeStruct((ROWS, FEATURES), jnp.float32),
    jax.ShapeDtypeStruct((1, FEATURES), jnp.float32),
    jax.ShapeDtypeStruct((1, FEATURES), jnp.float32),
)


def kernel(x_ref, gain_ref, bias_ref, out_ref):
    inside = jax.lax.broadcasted_iota(jnp.int32, (8, WIDTH), 1) < FEATURES
    x = jnp.where(inside, x_ref[...], 0.0)
    mean = jnp.sum(x, axis=1, keepdims=True) / FEATURES
    centred = jnp.where(inside, x - mean, 0.0)
    variance = jnp.sum(centred * centred, axis=1, keepdims=True) / FEATURES
    out_ref[...] = centred * jax.lax.rsqrt(variance + 1e-5) * gain_ref[...] + bias_ref[...]


def run(x, gain, bias, interpret=False):
    row = pl.BlockSpec((1, WIDTH), lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS, FEATURES), jnp.float32),
        grid=(ROWS // 8,),
        in_specs=[pl.BlockSpec((8, WIDTH), lambda i: (i, 0)), row, row],
        out_specs=pl.BlockSpec((8, WIDTH), lambda row: (row, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        interpret=interpret,
    )(x, gain, bias)


def reference(x, gain, bias):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * gain + bias
