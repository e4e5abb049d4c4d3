"""The portable operations on shapes that do not fit."""

from typing import Literal as L

import jax.numpy as jnp

import typedpallas as tp
from typedpallas import In, Multiple, Out, Scratch, bf16, f32


def matmul[BM: Multiple[L[16]], BK: Multiple[L[16]], BN: Multiple[L[16]]](
    x: In[tp.BLOCK, bf16, BM, BK],
    y: In[tp.BLOCK, bf16, BK, BN],
    turned: In[tp.BLOCK, bf16, BN, BK],
    o: Out[tp.BLOCK, bf16, BM, BN],
    acc: Scratch[tp.ACC, f32, BM, BN],
) -> None:
    tp.mma(acc, x, y)
    tp.mma(acc, x, turned, transpose_y=True)
    tp.mma(acc, x, turned)  # E: shape-mismatch
    tp.mma(acc, turned, x, transpose_y=True)  # E: shape-mismatch

    @tp.last
    def _():
        o[...] = acc[...].astype(o.dtype)

    o[...] = tp.dot(x, y).astype(o.dtype)
    o[...] = tp.dot(x, turned[...], transpose_y=True).astype(jnp.bfloat16)
    o[...] = tp.dot(x, y)  # E: dtype-mismatch
    o[...] = tp.dot(y, x).astype(o.dtype)  # E: shape-mismatch
    rows = jnp.max(acc[...], axis=1)
    o[...] = (acc[...] - tp.broadcast_rows(rows, acc.shape)).astype(o.dtype)
    tp.broadcast_rows(rows, y.shape)  # E: shape-mismatch
