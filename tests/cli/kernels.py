"""Plain Pallas kernels that the command line's tests name."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _triple(table, out):
    out[...] = table[pl.ds(8, 8), :] * 3.0


def _rows(table, space):
    return pl.pallas_call(
        _triple,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=space)],
    )(table)


def from_hbm(table):
    return _rows(table, pltpu.HBM)


def from_vmem(table):
    return _rows(table, pltpu.VMEM)


def anywhere(table):
    return pl.pallas_call(_triple, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(table)


def no_kernel(table):
    return table + 1.0


def raises(table):
    raise RuntimeError(f"my own mistake with {table.shape}")


NOT_A_FUNCTION = 3
