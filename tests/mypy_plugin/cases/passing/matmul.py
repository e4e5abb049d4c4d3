"""The design's matmul kernel, launched by hand."""

from typing import Literal as L

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from typedpallas import In, Multiple, Out, Scratch, bf16, f32
from typedpallas.tpu import VMEM


def matmul_kernel[BM: Multiple[L[16]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[VMEM, bf16, BM, BK],
    y: In[VMEM, bf16, BK, BN],
    o: Out[VMEM, bf16, BM, BN],
    acc: Scratch[VMEM, f32, BM, BN],
) -> None:
    @pl.when(pl.program_id(2) == 0)
    def _() -> None:
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _() -> None:
        o[...] = acc[...].astype(o.dtype)


def matmul(x: jax.Array, y: jax.Array) -> jax.Array:
    result: jax.Array = pl.pallas_call(
        matmul_kernel,
        grid=(2, 2, 2),
        in_specs=[pl.BlockSpec((16, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((16, 128), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((32, 256), jnp.bfloat16),
        scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32)],
        interpret=True,
    )(x, y)
    return result


def run() -> None:
    x = jax.random.normal(jax.random.key(0), (32, 256), jnp.bfloat16)
    y = jax.random.normal(jax.random.key(1), (256, 256), jnp.bfloat16)
    want = np.asarray(x, np.float32) @ np.asarray(y, np.float32)
    np.testing.assert_allclose(np.asarray(matmul(x, y), np.float32), want, rtol=2e-2, atol=0.2)
