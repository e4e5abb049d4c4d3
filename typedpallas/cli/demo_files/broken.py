"""Six kernels with one placement mistake each. Nothing is run or compiled: mypy finds all six in the source."""

from typing import Literal as L

import jax.numpy as jnp
from jax.experimental import pallas as pl

import typedpallas as tp
from typedpallas import Array, Dim, In, Multiple, Out, Scratch, bf16, f32
from typedpallas.tpu import HBM, VMEM


# 1. A vector is read straight from HBM.
def pick(table: In[HBM, f32, L[32], L[128]], out: Out[VMEM, f32, L[8], L[128]]) -> None:
    out[...] = table[pl.ds(8, 8), :] * 3.0


# 2. `w` is stored transposed, and the dot forgets it.
def project[BM: Multiple[L[8]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[VMEM, f32, BM, BK], w: In[VMEM, f32, BN, BK], out: Out[VMEM, f32, BM, BN]
) -> None:
    out[...] = jnp.dot(x[...], w[...])


# 3. The result goes to the input.
def relu[BM: Multiple[L[8]], N: Dim](x: In[VMEM, f32, BM, N], out: Out[VMEM, f32, BM, N]) -> None:
    x[...] = jnp.maximum(x[...], 0.0)


# 4. A float32 product goes into a bfloat16 buffer.
def narrow[BM: Multiple[L[16]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[VMEM, bf16, BM, BK], y: In[VMEM, bf16, BK, BN], out: Out[VMEM, bf16, BM, BN]
) -> None:
    out[...] = jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)


# 5. Blocks of 96 rows do not divide 1000.
def double[BM: Multiple[L[8]], N: Dim](x: In[VMEM, f32, BM, N], out: Out[VMEM, f32, BM, N]) -> None:
    out[...] = x[...] * 2.0


doubled = tp.launch(double, "(i BM) N -> (i BM) N", grid="i")


def twice(x: Array[f32, L[1000], L[128]]) -> Array[f32, L[1000], L[128]]:
    return doubled(x, BM=96)


# 6. `k` accumulates into one output block, so its steps must not run at the same time.
def total[BM: Multiple[L[8]], BK: Multiple[L[128]]](
    x: In[VMEM, f32, BM, BK], out: Out[VMEM, f32, BM, L[128]], acc: Scratch[VMEM, f32, BM, L[128]]
) -> None:
    @pl.when(pl.program_id(1) == 0)
    def _() -> None:
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.broadcast_to(x[...].sum(axis=1, keepdims=True), acc.shape)
    out[...] = acc[...]


totals = tp.launch(total, "(i BM) (k BK) -> (i BM) 128", grid="i k", parallel="i k")
