"""Attention with every mask, on any machine: the Hopper kernels where they fit, plain XLA elsewhere."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

import typedpallas as tp
from typedpallas.launching.choose import choices

type Segments = tuple[jax.Array, jax.Array] | None

_UNIT = 128
"""Lengths that the Hopper kernels take are its multiples."""


@dataclass(frozen=True)
class _Options:
    causal: bool
    window: int | None
    scale: float


def multihead_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    causal: bool = False,
    window: int | None = None,
    segments: Segments = None,
    scale: float | None = None,
    with_lse: bool = False,
) -> Any:
    """``softmax(scale q k^T) v``, differentiable.

    A Hopper GPU runs the kernels of `typedpallas.kernels.gpu` for float16 and bfloat16 and heads of 64, 128 or 256
    dims (backward, with segments: 64 or 128); lengths are padded where they must be. A TPU runs those of
    `typedpallas.kernels.tpu` for float32 and, from v4 on, bfloat16, heads of multiples of 64 dims and lengths of
    multiples of 128. Whatever else, and every other machine, runs plain XLA with the whole matrix of scores.

    Args:
        q: any float type, shape ``(batch, queries, heads, head_dim)``.
        k: the same type, shape ``(batch, keys, kv_heads, head_dim)``; ``kv_heads`` divides ``heads``.
        v: as ``k``.
        causal: query ``i`` sees the keys ``0 .. i``.
        window: and of these the last ``window``, itself included.
        segments: of queries and of keys, int32, shapes ``(batch, queries)`` and ``(batch, keys)``; a query sees the
            keys of its own segment, and must see one.
        scale: factor of the scores; unless given, ``head_dim ** -0.5``.
        with_lse: return the logarithm of each row's sum of exponentials too.

    Returns:
        The shape and type of ``q``; with ``with_lse`` also float32, shape ``(batch, heads, queries)``.

    Raises:
        LaunchError: shapes or types do not fit each other, or there is a window without ``causal``.
    """
    _check(q, k, v, segments)
    if window is not None and (not causal or window < 1):
        raise tp.LaunchError(f"multihead_attention: `window`: expected at least 1 and `causal`, found {window}")
    options = _Options(causal, window, q.shape[3] ** -0.5 if scale is None else scale)
    ids = None if segments is None else (segments[0].astype(jnp.int32), segments[1].astype(jnp.int32))
    run = _on_hopper if _fits(q) else _on_tpu if _fits_tpu(q, k) else reference
    out, lse = run(q, k, v, ids, options)
    return (out, lse) if with_lse else out


def _check(q: jax.Array, k: jax.Array, v: jax.Array, segments: Segments) -> None:
    name = "multihead_attention"
    if q.ndim != 4 or k.ndim != 4 or k.shape != v.shape or (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]):
        raise tp.LaunchError(
            f"{name}: expected (batch, length, heads, head_dim), found shapes {q.shape}, {k.shape} and {v.shape}"
        )
    if q.dtype != k.dtype or q.dtype != v.dtype or not jnp.issubdtype(q.dtype, jnp.floating):
        raise tp.LaunchError(f"{name}: expected one float type, found {q.dtype}, {k.dtype} and {v.dtype}")
    if q.shape[2] % k.shape[2]:
        raise tp.LaunchError(f"{name}: {k.shape[2]} heads of keys do not divide {q.shape[2]} heads of queries")
    for what, ids, length in zip(("queries", "keys"), segments or (), (q.shape[1], k.shape[1]), strict=False):
        if ids.shape != (q.shape[0], length):
            raise tp.LaunchError(
                f"{name}: `segments` of {what}: expected shape {(q.shape[0], length)}, found {ids.shape}"
            )


def _fits(q: jax.Array) -> bool:
    """Whether the machine at hand has kernels for such queries."""
    way = choices(None, None)[0]
    hopper = not way.interpret and way.capability is not None and way.capability[0] == 9
    return hopper and q.dtype in (jnp.float16, jnp.bfloat16) and q.shape[3] in (64, 128, 256)


def _fits_tpu(q: jax.Array, k: jax.Array) -> bool:
    """Whether the machine at hand is a TPU with kernels for such queries and keys."""
    from typedpallas.kernels.tpu import blocks

    whole = q.shape[1] % _UNIT == 0 and k.shape[1] % _UNIT == 0 and q.shape[3] % 64 == 0
    return whole and blocks.served(q.dtype)


def _on_tpu(q: jax.Array, k: jax.Array, v: jax.Array, segments: Segments, options: _Options) -> Any:
    from typedpallas.kernels.tpu.attention import flash_attention

    masks: Any = {"causal": options.causal, "window": options.window}
    q, k, v = (jnp.moveaxis(x, 2, 1) for x in (q, k, v))
    out, lse = flash_attention(q, k, v, segments, **masks, scale=options.scale, with_lse=True)
    return jnp.moveaxis(out, 1, 2), lse


def _on_hopper(q: jax.Array, k: jax.Array, v: jax.Array, segments: Segments, options: _Options) -> Any:
    """With lengths padded. Keys beyond the end are a segment of their own, unless the mask hides them anyway."""
    queries, keys = q.shape[1], k.shape[1]
    hidden = options.causal and queries <= keys
    if keys % _UNIT and segments is None and not hidden:
        segments = jnp.zeros((q.shape[0], queries), jnp.int32), jnp.zeros((q.shape[0], keys), jnp.int32)
    if segments is not None:
        lowest = int(np.iinfo(np.int32).min)
        segments = _padded(segments[0], 0), _padded(segments[1], lowest)
    padded = (_padded(x, 0) for x in (q, k, v))
    out, lse = cast("tuple[jax.Array, jax.Array]", _kernels(*padded, segments, options))
    return out[:, :queries], lse[:, :, :queries]


def _padded(x: jax.Array, value: int) -> jax.Array:
    """Up to a multiple of the unit along axis 1."""
    missing = -x.shape[1] % _UNIT
    if not missing:
        return x
    return jnp.pad(x, [(0, missing if axis == 1 else 0) for axis in range(x.ndim)], constant_values=value)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _kernels(q: jax.Array, k: jax.Array, v: jax.Array, segments: Segments, options: _Options) -> Any:
    from typedpallas.kernels.gpu.attention import attention

    o = options
    return attention(q, k, v, segments, causal=o.causal, window=o.window, scale=o.scale)


def _forward(q: jax.Array, k: jax.Array, v: jax.Array, segments: Segments, options: _Options) -> Any:
    out, lse = cast("tuple[jax.Array, jax.Array]", _kernels(q, k, v, segments, options))
    return (out, lse), (q, k, v, out, lse, segments)


def _backward(options: _Options, kept: Any, gradients: Any) -> tuple[Any, ...]:
    from typedpallas.kernels.gpu.attention_gradients import attention_backward

    q, k, v, out, lse, segments = kept
    none = None if segments is None else tuple(np.zeros(x.shape, jax.dtypes.float0) for x in segments)
    if q.shape[3] > 128 and segments is not None:  # shared memory has no room for those

        def plain(q: jax.Array, k: jax.Array, v: jax.Array) -> Any:
            return reference(q, k, v, segments, options)

        pull = cast("Callable[[Any], tuple[jax.Array, ...]]", jax.vjp(plain, q, k, v)[1])
        d_q, d_k, d_v = pull(gradients)
        return d_q, d_k, d_v, none
    d_out, d_lse = gradients
    o = options
    found = attention_backward(
        *(q, k, v, out, lse, d_out, segments), d_lse=d_lse, causal=o.causal, window=o.window, scale=o.scale
    )
    return *found, none


_kernels.defvjp(_forward, _backward)


def reference(q: jax.Array, k: jax.Array, v: jax.Array, segments: Segments, options: Any) -> Any:
    """The definition, in plain `jax.numpy`: scores and sums in float32. ``options``: causal, window and scale."""
    shared = q.shape[2] // k.shape[2]
    wide = (x.astype(jnp.float32) for x in (q, jnp.repeat(k, shared, 2), jnp.repeat(v, shared, 2)))
    queries, keys, values = wide
    scores = jnp.einsum("bqhd,bkhd->bhqk", queries, keys) * options.scale
    row, column = jnp.arange(q.shape[1])[:, None], jnp.arange(k.shape[1])[None]
    seen = jnp.ones((1, 1, q.shape[1], k.shape[1]), bool)
    if options.causal:
        seen &= column <= row
    if options.window is not None:
        seen &= column > row - options.window
    if segments is not None:
        seen &= (segments[0][:, :, None] == segments[1][:, None, :])[:, None]
    scores = jnp.where(seen, scores, -1e30)
    lse = jax.nn.logsumexp(scores, axis=-1)
    out = jnp.einsum("bhqk,bkhd->bqhd", jnp.exp(scores - lse[..., None]), values)
    return out.astype(q.dtype), lse
