"""Rows of a table by number: the numbers are fetched ahead and the index map reads them."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TARGETS = ("tpu-v5p", "tpu-v5e", "tpu-7x")
WORDS, COUNT = 20, 12
ARGS = (jax.ShapeDtypeStruct((COUNT,), jnp.int32), jax.ShapeDtypeStruct((WORDS, 8, 128), jnp.float32))


def kernel(ids_ref, row_ref, out_ref):
    out_ref[...] = row_ref[...] * 2.0


def run(ids, table, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((COUNT, 8, 128), jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(COUNT,),
            in_specs=[pl.BlockSpec((None, 8, 128), lambda i, ids: (ids[i], 0, 0))],
            out_specs=pl.BlockSpec((None, 8, 128), lambda i, ids: (i, 0, 0)),
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)),
        interpret=interpret,
    )(ids, table)


def inputs(rng):
    ids = rng.integers(0, WORDS, COUNT)
    return [jnp.asarray(ids, jnp.int32), jnp.asarray(rng.normal(size=ARGS[1].shape), jnp.float32)]


def reference(ids, table):
    return table[ids] * 2.0
