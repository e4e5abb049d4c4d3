"""``max(2x + 1, 0)``, typed."""

import jax
import jax.numpy as jnp

import typedpallas as tp
from typedpallas import BLOCK, Dim, In, Out

TARGETS = ("tpu-v5p", "h100")
ARGS = (jax.ShapeDtypeStruct((64, 512), jnp.float32),)


def kernel[T: tp.Float, BM: Dim, BN: Dim](
    x: In[BLOCK, T, BM, BN],
    out: Out[BLOCK, T, BM, BN],
) -> None:
    out[...] = jnp.maximum(x[...] * 2 + 1, 0)


def run(x: jax.Array, interpret: bool | None = None) -> jax.Array:
    launch = tp.launch(kernel, "(i BM) (j BN) -> (i BM) (j BN)", grid="i j", interpret=interpret)
    result: jax.Array = launch(x, BM=16, BN=128)
    return result


def reference(x: jax.Array) -> jax.Array:
    return jnp.maximum(x * 2 + 1, 0)
