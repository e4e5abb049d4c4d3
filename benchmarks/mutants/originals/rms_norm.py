"""RMS norm of whole rows; the gain is a vector, epsilon a scalar in scalar memory."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TARGETS = ("tpu-v5p", "tpu-v5e", "tpu-7x")
ROWS, FEATURES = 32, 512
ARGS = (
    jax.ShapeDtypeStruct((ROWS, FEATURES), jnp.float32),
    jax.ShapeDtypeStruct((FEATURES,), jnp.float32),
    jax.ShapeDtypeStruct((1,), jnp.float32),
)


def kernel(x_ref, gain_ref, epsilon_ref, out_ref):
    x = x_ref[...]
    power = jnp.mean(x * x, axis=1, keepdims=True)
    out_ref[...] = x * jax.lax.rsqrt(power + epsilon_ref[0]) * gain_ref[...]


def run(x, gain, epsilon, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS, FEATURES), jnp.float32),
        grid=(ROWS // 8,),
        in_specs=[
            pl.BlockSpec((8, FEATURES), lambda i: (i, 0)),
            pl.BlockSpec((FEATURES,), lambda i: (0,)),
            pl.BlockSpec(memory_space=pltpu.SMEM),
        ],
        out_specs=pl.BlockSpec((8, FEATURES), lambda row: (row, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        interpret=interpret,
    )(x, gain, epsilon)


def inputs(rng):
    x, gain = rng.normal(size=(ROWS, FEATURES)), rng.normal(size=FEATURES)
    return [jnp.asarray(a, jnp.float32) for a in (x, gain, [1e-5])]


def reference(x, gain, epsilon):
    return x * jax.lax.rsqrt((x * x).mean(axis=1, keepdims=True) + epsilon) * gain
