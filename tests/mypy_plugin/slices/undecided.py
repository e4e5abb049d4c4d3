"""Slices that are right for some sizes and not for others, or of which too little is known."""

from typing import Literal as L

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import Dim, In, Multiple, Out, f32
from typedpallas.tpu import VMEM

WIDE = jax.ShapeDtypeStruct((64, 256), jnp.float32)


def any_block[BM: Dim, M: Dim, N: Multiple[L[256]]](x: In[VMEM, f32, M, N], o: Out[VMEM, f32, BM, N]) -> None:
    rows = o.shape[0]
    o[...] = x[pl.ds(pl.program_id(0) * rows, rows), :]  # open


def any_width[N: Dim](x: In[VMEM, f32, L[64], N], o: Out[VMEM, f32, L[16], N]) -> None:
    o[...] = x[pl.ds(pl.program_id(0) * 4, 16), :]  # open


def from_elsewhere(number: jax.Array) -> jax.Array:
    return number * 16


def called(x: In[VMEM, f32, L[64], L[256]], o: Out[VMEM, f32, L[16], L[256]]) -> None:
    o[...] = x[pl.ds(from_elsewhere(pl.program_id(0)), 16), :]  # open


LAUNCHES = {
    "any block": (tp.launch(any_block, "M N -> (i BM) N", grid="i", dims={"i": 4}), (WIDE,), {"BM": 16}),
    "any width": (
        tp.launch(any_width, "64 N -> (i 16) N", grid="i", dims={"i": 4}),
        (jax.ShapeDtypeStruct((64, 128), jnp.float32),),
        {},
    ),
    "called": (tp.launch(called, "64 256 -> (i 16) 256", grid="i", dims={"i": 4}), (WIDE,), {}),
}


def sparse(x: jax.Array, params: pltpu.CompilerParams) -> jax.Array:
    """Nothing is said of a launch whose parameters are not there to read: it may be for a SparseCore."""

    def kernel(x: In[VMEM, f32, L[64], L[256]], o: Out[VMEM, f32, L[16], L[256]]) -> None:
        o[...] = x[pl.ds(pl.program_id(0) * 4, 16), :]

    found: jax.Array = pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((64, 256), jnp.float32),
        grid=(4,),
        in_specs=[pl.BlockSpec((64, 256), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((16, 256), lambda i: (i, 0)),
        compiler_params=params,
    )(x)
    return found


def launched_elsewhere(x: In[VMEM, f32, L[64], L[256]], o: Out[VMEM, f32, L[16], L[256]]) -> None:
    i = pl.program_id(0)
    o[...] = x[pl.ds(i * 4, 16), :]  # open
    o[...] = x[pl.ds(i * 16, 16), :]
