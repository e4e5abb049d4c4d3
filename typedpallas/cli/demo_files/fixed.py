"""The six kernels with their mistakes mended: mypy has nothing to say."""

from typing import Literal as L

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import Array, Dim, In, Multiple, Out, Scratch, bf16, f32
from typedpallas.tpu import HBM, VMEM


# 1. A copy brings the rows from HBM into VMEM.
def pick(
    table: In[HBM, f32, L[32], L[128]], out: Out[VMEM, f32, L[8], L[128]], rows: Scratch[VMEM, f32, L[8], L[128]]
) -> None:
    pltpu.sync_copy(table.at[pl.ds(8, 8), :], rows)
    out[...] = rows[...] * 3.0


# 2. The dot transposes `w`.
def project[BM: Multiple[L[8]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[VMEM, f32, BM, BK], w: In[VMEM, f32, BN, BK], out: Out[VMEM, f32, BM, BN]
) -> None:
    out[...] = jnp.dot(x[...], w[...].T)


# 3. The result goes to the output.
def relu[BM: Multiple[L[8]], N: Dim](x: In[VMEM, f32, BM, N], out: Out[VMEM, f32, BM, N]) -> None:
    out[...] = jnp.maximum(x[...], 0.0)


# 4. The product is rounded on purpose.
def narrow[BM: Multiple[L[16]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[VMEM, bf16, BM, BK], y: In[VMEM, bf16, BK, BN], out: Out[VMEM, bf16, BM, BN]
) -> None:
    out[...] = jnp.dot(x[...], y[...], preferred_element_type=jnp.float32).astype(jnp.bfloat16)


# 5. Blocks of 200 rows divide 1000.
def double[BM: Multiple[L[8]], N: Dim](x: In[VMEM, f32, BM, N], out: Out[VMEM, f32, BM, N]) -> None:
    out[...] = x[...] * 2.0


doubled = tp.launch(double, "(i BM) N -> (i BM) N", grid="i")


def twice(x: Array[f32, L[1000], L[128]]) -> Array[f32, L[1000], L[128]]:
    return doubled(x, BM=200)


# 6. Only `i` is parallel; the steps of `k` run in order.
def total[BM: Multiple[L[8]], BK: Multiple[L[128]]](
    x: In[VMEM, f32, BM, BK], out: Out[VMEM, f32, BM, L[128]], acc: Scratch[VMEM, f32, BM, L[128]]
) -> None:
    @pl.when(pl.program_id(1) == 0)
    def _() -> None:
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.broadcast_to(x[...].sum(axis=1, keepdims=True), acc.shape)
    out[...] = acc[...]


totals = tp.launch(total, "(i BM) (k BK) -> (i BM) 128", grid="i k", parallel="i")
