"""Flash attention on Hopper that `jax.grad` goes through."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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
    segments: tuple[jax.Array, jax.Array] | None = None,
    *,
    d_lse: jax.Array | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    tuning: BackwardTuning | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The gradients of ``q``, ``k`` and ``v`` on a Hopper GPU.

    Args:
        q: float16 or bfloat16, shape ``(batch, queries, heads, head_dim)``; heads of 64, 128 or 256 dims.
        k: the same type, shape ``(batch, keys, kv_heads, head_dim)``; ``kv_heads`` divides ``heads``.
        v: as ``k``.
        out: what the forward pass gave, as ``q``.
        lse: what else it gave: float32, shape ``(batch, heads, queries)``.
        d_out: the gradient of ``out``, as ``q``.
        segments: as the forward pass had them; heads of 256 dims leave no memory for them.
        d_lse: the gradient of ``lse``, as ``lse``; zero unless given.
        causal: query ``i`` sees the keys ``0 .. i``.
        window: and of these the last ``window``, itself included.
        scale: factor of the scores; unless given, ``head_dim ** -0.5``.
        tuning: unless given, what is fastest on an H200.

    Returns:
        The shapes and types of ``q``, ``k`` and ``v``. Sums are float32; those of ``q`` are added in no fixed order.
    """
    factor = q.shape[3] ** -0.5 if scale is None else scale
    chosen = tuning or backward_default(q, k)
    delta = jnp.moveaxis((out.astype(jnp.float32) * d_out.astype(jnp.float32)).sum(axis=-1), 1, 2)
    if d_lse is not None:
        delta = delta - d_lse
    run = launch(q, k, causal=causal, scale=factor, tuning=chosen, window=window, segmented=segments is not None)
    start = jnp.zeros(q.shape, jnp.float32)
    d_q, d_k, d_v = run(q, k, v, d_out, lse * math.log2(math.e), delta, *(segments or ()), start)
    return (d_q * factor).astype(q.dtype), _summed(d_k, k), _summed(d_v, v)


def _summed(gradients: jax.Array, like: jax.Array) -> jax.Array:
    """Over the heads of queries that share a head of keys."""
    if gradients.shape == like.shape:
        return gradients
    parts = gradients.reshape(*like.shape[:3], -1, like.shape[3])
    return parts.astype(jnp.float32).sum(axis=3).astype(like.dtype)


@dataclass(frozen=True)
class Options:
    """Of `differentiable_attention`: as `attention` and `attention_backward` take them."""

    causal: bool = False
    window: int | None = None
    scale: float | None = None
    forward: AttentionTuning | None = None
    backward: BackwardTuning | None = None


type Segments = tuple[jax.Array, jax.Array] | None


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def differentiable_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, segments: Segments, options: Options
) -> tuple[jax.Array, jax.Array]:
    """`attention`; its gradients are those of `attention_backward`."""
    o = options
    return attention(q, k, v, segments, causal=o.causal, window=o.window, scale=o.scale, tuning=o.forward)


def _forward(q: jax.Array, k: jax.Array, v: jax.Array, segments: Segments, options: Options) -> tuple[Any, Any]:
    out, lse = differentiable_attention(q, k, v, segments, options)
    return (out, lse), (q, k, v, out, lse, segments)


def _backward(options: Options, kept: Any, gradients: tuple[jax.Array, jax.Array]) -> tuple[Any, ...]:
    q, k, v, out, lse, segments = kept
    o = options
    found = attention_backward(
        *(q, k, v, out, lse, gradients[0], segments),
        d_lse=gradients[1],
        causal=o.causal,
        window=o.window,
        scale=o.scale,
        tuning=o.backward,
    )
    return *found, None if segments is None else tuple(np.zeros(x.shape, jax.dtypes.float0) for x in segments)


differentiable_attention.defvjp(_forward, _backward)
