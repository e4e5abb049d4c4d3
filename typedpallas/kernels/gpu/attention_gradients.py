"""Flash attention on Hopper that `jax.grad` goes through."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from typedpallas.kernels.gpu.attention import attention
from typedpallas.kernels.gpu.attention_backward import launch
from typedpallas.kernels.gpu.attention_tuning import AttentionTuning, BackwardTuning, backward_default


def attention_backward(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    out: jax.Array,
    lse: jax.Array,
    d_out: jax.Array,
    *,
    causal: bool = False,
    scale: float | None = None,
    tuning: BackwardTuning | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The gradients of ``q``, ``k`` and ``v`` on a Hopper GPU.

    Args:
        q: float16 or bfloat16, shape ``(batch, queries, heads, head_dim)``.
        k: the same type, shape ``(batch, keys, kv_heads, head_dim)``; ``kv_heads`` divides ``heads``.
        v: as ``k``.
        out: what the forward pass gave, as ``q``.
        lse: what else it gave: float32, shape ``(batch, heads, queries)``.
        d_out: the gradient of ``out``, as ``q``.
        causal: query ``i`` sees the keys ``0 .. i``.
        scale: factor of the scores; unless given, ``head_dim ** -0.5``.
        tuning: unless given, what is fastest on an H200.

    Returns:
        The shapes and types of ``q``, ``k`` and ``v``. Sums are float32; those of ``q`` are added in no fixed order.
    """
    factor = q.shape[3] ** -0.5 if scale is None else scale
    chosen = tuning or backward_default(q, k)
    delta = jnp.moveaxis((out.astype(jnp.float32) * d_out.astype(jnp.float32)).sum(axis=-1), 1, 2)
    run = launch(q, k, causal=causal, scale=factor, tuning=chosen)
    d_q, d_k, d_v = run(q, k, v, d_out, lse * math.log2(math.e), delta, jnp.zeros(q.shape, jnp.float32))
    return (d_q * factor).astype(q.dtype), _summed(d_k, k), _summed(d_v, v)


def _summed(gradients: jax.Array, like: jax.Array) -> jax.Array:
    """Over the heads of queries that share a head of keys."""
    if gradients.shape == like.shape:
        return gradients
    parts = gradients.reshape(*like.shape[:3], -1, like.shape[3])
    return parts.astype(jnp.float32).sum(axis=3).astype(like.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5, 6))
def differentiable_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    causal: bool = False,
    scale: float | None = None,
    tuning: AttentionTuning | None = None,
    backward_tuning: BackwardTuning | None = None,
) -> jax.Array:
    """`attention` without its sums of exponentials; its gradients are those of `attention_backward`."""
    return attention(q, k, v, causal=causal, scale=scale, tuning=tuning)[0]


def _forward(q: jax.Array, k: jax.Array, v: jax.Array, *options: Any) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    causal, scale, tuning, _ = options
    out, lse = attention(q, k, v, causal=causal, scale=scale, tuning=tuning)
    return out, (q, k, v, out, lse)


def _backward(
    causal: bool,
    scale: float | None,
    _: AttentionTuning | None,
    tuning: BackwardTuning | None,
    kept: tuple[jax.Array, ...],
    d_out: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    q, k, v, out, lse = kept
    return attention_backward(q, k, v, out, lse, d_out, causal=causal, scale=scale, tuning=tuning)


differentiable_attention.defvjp(_forward, _backward)
