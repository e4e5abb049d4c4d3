"""Flash attention, forward: softmax(q k^T) v without the matrix of scores ever being whole."""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

import typedpallas as tp
from typedpallas import BLOCK, STATE, Dim, In, Out, Scratch, f32
from typedpallas.kernels import costs, defaults

_MASKED = -1e30
"""The score of a key that a query may not see: finite, so that no row's maximum is minus infinity."""


def flash_attention_kernel[T: tp.Float, BQ: Dim, BK: Dim, D: Dim](
    q: In[BLOCK, T, BQ, D],
    k: In[BLOCK, T, BK, D],
    v: In[BLOCK, T, BK, D],
    out: Out[BLOCK, T, BQ, D],
    highest: Scratch[STATE, f32, BQ],
    total: Scratch[STATE, f32, BQ],
    mean: Scratch[STATE, f32, BQ, D],
    *,
    causal: bool,
    scale: float,
) -> None:
    """One block of keys for one block of queries.

    ``highest`` is the highest score of each row so far (in units of log2), ``total`` the sum of the weights and
    ``mean`` the weighted sum of values, both relative to ``highest``.
    """

    @tp.first
    def _() -> None:
        highest[...] = jnp.full(highest.shape, _MASKED, highest.dtype)
        total[...] = jnp.zeros(total.shape, total.dtype)
        mean[...] = jnp.zeros(mean.shape, mean.dtype)

    def update(visible: Callable[[jax.Array], jax.Array] | None = None) -> None:
        scores = tp.dot(q, k, transpose_y=True) * (scale * math.log2(math.e))
        if visible is not None:
            scores = jnp.where(visible(scores), scores, _MASKED)
        before = highest[...]
        now = jnp.maximum(before, scores.max(axis=1))
        shrink = jnp.exp2(before - now)
        weights = jnp.exp2(scores - tp.broadcast_rows(now, scores.shape))
        highest[...] = now
        total[...] = total[...] * shrink + weights.sum(axis=1)
        mean[...] = mean[...] * tp.broadcast_rows(shrink, mean.shape) + tp.dot(weights.astype(v.dtype), v)

    if causal:
        first_query = tp.grid_index("i") * q.shape[0]
        first_key = tp.grid_index("j") * k.shape[0]

        def visible(scores: jax.Array) -> jax.Array:
            queries = first_query + lax.broadcasted_iota(jnp.int32, scores.shape, 0)
            return first_key + lax.broadcasted_iota(jnp.int32, scores.shape, 1) <= queries

        pl.when(first_key < first_query + q.shape[0])(functools.partial(update, visible))
    else:
        update()

    @tp.last
    def _() -> None:
        out[...] = (mean[...] / tp.broadcast_rows(total[...], mean.shape)).astype(out.dtype)


@functools.cache
def launch(*, causal: bool, scale: float) -> tp.Launch:
    """Takes ``q``, ``k``, ``v`` and the block sizes ``BQ`` and ``BK`` (elements)."""
    return tp.launch(
        functools.partial(flash_attention_kernel, causal=causal, scale=scale),
        "b h (i BQ) D, b h (j BK) D, b h (j BK) D -> b h (i BQ) D",
        grid="b h i j",
        ragged="BQ",
        tuning=tp.Tuning(approximate=True, cost=functools.partial(cost, causal=causal)),
    )


def cost(
    q: jax.ShapeDtypeStruct, k: jax.ShapeDtypeStruct, v: jax.ShapeDtypeStruct, *, causal: bool
) -> pl.CostEstimate:
    """Of a call; ``causal``: of the half of the scores that queries see."""
    scores = q.size // q.shape[3] * k.shape[2]
    if causal:
        scores //= 2
    return costs.products(2 * scores * q.shape[3], (q, k, v, q), scores)


def flash_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    causal: bool = False,
    scale: float | None = None,
    block: tuple[int, int] | None = None,
) -> jax.Array:
    """``softmax(scale q k^T) v``.

    Args:
        q: any float type, shape ``(batch, heads, queries, head_dim)``.
        k: the same type, shape ``(batch, heads, keys, head_dim)``.
        v: as ``k``.
        causal: query ``i`` sees the keys ``0 .. i``.
        scale: factor of the scores; unless given, ``head_dim ** -0.5``.
        block: ``(BQ, BK)``, queries and keys of one block; ``BK`` divides the number of keys. Unless given, what
            fits the backend.

    Returns:
        The shape and type of ``q``; scores and sums are float32.
    """
    if q.ndim != 4 or k.ndim != 4:
        raise tp.LaunchError(
            f"flash_attention: expected (batch, heads, length, head_dim), found shapes {q.shape} and {k.shape}"
        )
    queries, keys = block or defaults.attention(q.shape[2], k.shape[2], q.dtype.itemsize)
    run = launch(causal=causal, scale=q.shape[3] ** -0.5 if scale is None else scale)
    result: jax.Array = run(q, k, v, BQ=queries, BK=keys)
    return result
