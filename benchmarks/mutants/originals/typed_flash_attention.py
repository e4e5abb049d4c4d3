"""Flash attention, typed: a running maximum and sum in state, keys along a sequential axis."""

import jax
import jax.numpy as jnp

import typedpallas as tp
from typedpallas import BLOCK, STATE, Dim, In, Out, Scratch, f32

TARGETS = ("tpu-v5p", "h100")
SHAPE = (2, 128, 128)
ARGS = (
    jax.ShapeDtypeStruct(SHAPE, jnp.bfloat16),
    jax.ShapeDtypeStruct(SHAPE, jnp.bfloat16),
    jax.ShapeDtypeStruct(SHAPE, jnp.bfloat16),
)


def kernel[T: tp.Float, BQ: Dim, BK: Dim, D: Dim](
    q: In[BLOCK, T, BQ, D],
    k: In[BLOCK, T, BK, D],
    v: In[BLOCK, T, BK, D],
    out: Out[BLOCK, T, BQ, D],
    highest: Scratch[STATE, f32, BQ],
    total: Scratch[STATE, f32, BQ],
    mean: Scratch[STATE, f32, BQ, D],
) -> None:
    @tp.first
    def _() -> None:
        highest[...] = jnp.full(highest.shape, -1e30, highest.dtype)
        total[...] = jnp.zeros(total.shape, total.dtype)
        mean[...] = jnp.zeros(mean.shape, mean.dtype)

    scores = tp.dot(q, k, transpose_y=True)
    before = highest[...]
    now = jnp.maximum(before, scores.max(axis=1))
    shrink = jnp.exp(before - now)
    weights = jnp.exp(scores - tp.broadcast_rows(now, scores.shape))
    highest[...] = now
    total[...] = total[...] * shrink + weights.sum(axis=1)
    mean[...] = mean[...] * tp.broadcast_rows(shrink, mean.shape) + tp.dot(weights.astype(v.dtype), v)

    @tp.last
    def _() -> None:
        out[...] = (mean[...] / tp.broadcast_rows(total[...], mean.shape)).astype(out.dtype)


def run(q: jax.Array, k: jax.Array, v: jax.Array, interpret: bool | None = None) -> jax.Array:
    launch = tp.launch(kernel, "h (i BQ) D, h (j BK) D, h (j BK) D -> h (i BQ) D", grid="h i j", interpret=interpret)
    result: jax.Array = launch(q, k, v, BQ=64, BK=64)
    return result


def reference(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    weights = jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k, preferred_element_type=jnp.float32), axis=-1)
    return jnp.einsum("hqk,hkd->hqd", weights, v.astype(jnp.float32)).astype(jnp.bfloat16)
