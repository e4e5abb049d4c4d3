"""Small kernels that the launch tests share."""

from typing import Literal as L

import jax.numpy as jnp

import typedpallas as tp
from typedpallas import ACC, BLOCK, STATE, Dim, In, InOut, Multiple, Out, Scratch, f32, i32
from typedpallas.tpu import HBM, VMEM


def double[BM: Dim, N: Dim](x: In[BLOCK, f32, BM, N], out: Out[BLOCK, f32, BM, N]) -> None:
    out[...] = x[...] * 2.0


def product[T: tp.Float, BM: Multiple[L[8]], BK: Dim, BN: Dim](
    x: In[BLOCK, T, BM, BK],
    y: In[BLOCK, T, BK, BN],
    out: Out[BLOCK, T, BM, BN],
    acc: Scratch[ACC, f32, BM, BN],
) -> None:
    tp.mma(acc, x, y)

    @tp.last
    def _() -> None:
        out[...] = acc[...].astype(out.dtype)


def low_and_high[BM: Dim, BN: Dim](
    x: In[BLOCK, f32, BM, BN],
    low: Out[BLOCK, f32, BM],
    high: Out[BLOCK, f32, BM],
) -> None:
    """Row minima and maxima over a sequential axis, kept in the outputs."""

    @tp.first
    def _() -> None:
        low[...] = jnp.full(low.shape, jnp.inf, low.dtype)
        high[...] = jnp.full(high.shape, -jnp.inf, high.dtype)

    low[...] = jnp.minimum(low[...], x[...].min(axis=1))
    high[...] = jnp.maximum(high[...], x[...].max(axis=1))


def running_sum[BM: Dim, BN: Dim](
    x: In[BLOCK, f32, BM, BN],
    out: Out[BLOCK, f32, BM, BN],
    total: Scratch[STATE, f32, BM],
) -> None:
    """Sums along rows so far: the output moves along the sequential axis too."""

    @tp.first
    def _() -> None:
        total[...] = jnp.zeros(total.shape, total.dtype)

    out[...] = tp.broadcast_rows(total[...], x.shape) + jnp.cumsum(x[...], axis=1)
    total[...] += x[...].sum(axis=1)


def add_into[BM: Dim, N: Dim](x: In[BLOCK, f32, BM, N], acc: InOut[BLOCK, f32, BM, N]) -> None:
    acc[...] += x[...]


def row_numbers[BM: Dim, N: Dim](out: Out[BLOCK, i32, BM, N]) -> None:
    out[...] = jnp.full(out.shape, tp.grid_index("i") * 100 + tp.grid_size("i"), jnp.int32)


def by_group[BM: Dim, D: Dim](
    x: In[BLOCK, f32, BM, D], scale: In[BLOCK, f32, L[1], D], out: Out[BLOCK, f32, BM, D]
) -> None:
    out[...] = x[...] * scale[...]


def copied[BM: Dim](table: In[HBM, f32, L[32], L[128]], out: Out[VMEM, f32, BM, L[128]]) -> None:
    import jax.experimental.pallas as pl
    import jax.experimental.pallas.tpu as pltpu

    pltpu.sync_copy(table.at[pl.ds(tp.grid_index("i") * out.shape[0], out.shape[0]), :], out)
