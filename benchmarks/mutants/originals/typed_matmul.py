"""The matrix product, typed: summed in float32 over a sequential axis."""

from typing import Literal as L

import jax
import jax.numpy as jnp

import typedpallas as tp
from typedpallas import ACC, BLOCK, Dim, In, Multiple, Out, Scratch, f32

TARGETS = ("tpu-v5p", "h100")
ARGS = (jax.ShapeDtypeStruct((256, 512), jnp.bfloat16), jax.ShapeDtypeStruct((512, 256), jnp.bfloat16))


def kernel[T: tp.Float, BM: Multiple[L[8]], BK: Dim, BN: Dim](
    x: In[BLOCK, T, BM, BK],
    y: In[BLOCK, T, BK, BN],
    out: Out[BLOCK, T, BM, BN],
    acc: Scratch[ACC, f32, BM, BN],
) -> None:
    tp.mma(acc, x, y)

    @tp.last
    def _() -> None:
        out[...] = acc[...].astype(out.dtype)


def run(x: jax.Array, y: jax.Array, interpret: bool | None = None) -> jax.Array:
    launch = tp.launch(kernel, "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", grid="i j k", interpret=interpret)
    result: jax.Array = launch(x, y, BM=64, BK=128, BN=128)
    return result


def reference(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(jnp.bfloat16)
