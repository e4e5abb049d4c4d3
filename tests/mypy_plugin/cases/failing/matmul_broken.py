"""The matmul kernel, broken in one way at a time."""

from typing import Literal as L

import jax.numpy as jnp
from jax.experimental import pallas as pl

from typedpallas import In, Multiple, Out, Scratch, bf16, f32
from typedpallas.tpu import HBM, VMEM


def from_hbm[BM: Multiple[L[16]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[HBM, bf16, BM, BK],
    y: In[VMEM, bf16, BK, BN],
    acc: Scratch[VMEM, f32, BM, BN],
) -> None:
    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)  # E: load-from-hbm


def transposed[BM: Multiple[L[16]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[VMEM, bf16, BM, BK],
    y: In[VMEM, bf16, BN, BK],
    acc: Scratch[VMEM, f32, BM, BN],
) -> None:
    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)  # E: shape-mismatch


def swapped[BM: Multiple[L[16]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[VMEM, bf16, BM, BK],
    y: In[VMEM, bf16, BK, BN],
    acc: Scratch[VMEM, f32, BM, BN],
) -> None:
    acc[...] += jnp.dot(y[...], x[...], preferred_element_type=jnp.float32)  # E: shape-mismatch


def into_input[BM: Multiple[L[16]], BK: Multiple[L[128]]](
    x: In[VMEM, bf16, BM, BK],
    o: Out[VMEM, bf16, BM, BK],
) -> None:
    x[...] = x[...] * 2.0  # E: store-to-input
    o[...] = x[...]


def not_cast[BM: Multiple[L[16]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[VMEM, bf16, BM, BK],
    y: In[VMEM, bf16, BK, BN],
    o: Out[VMEM, bf16, BM, BN],
    acc: Scratch[VMEM, f32, BM, BN],
) -> None:
    @pl.when(pl.program_id(2) == 0)
    def _() -> None:
        acc[...] = jnp.zeros_like(o)  # E: dtype-mismatch

    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o[...] = acc[...]  # E: dtype-mismatch
