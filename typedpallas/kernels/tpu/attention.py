"""Flash attention on TPUs that `jax.grad` goes through, with grouped heads, segments and a sliding window."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import typedpallas as tp
from typedpallas.kernels.tpu import attention_backward, attention_forward, blocks
from typedpallas.kernels.tpu.attention_masks import Mask

type Segments = tuple[jax.Array, jax.Array] | None


@dataclass(frozen=True)
class _Options:
    causal: bool
    window: int | None
    scale: float
    block: tuple[int, int]
    interpret: Any

    def mask(self, q: jax.Array, k: jax.Array, segmented: bool) -> Mask:
        (block_q, block_k), queries, keys = self.block, q.shape[3], k.shape[2]
        counts = (queries // block_q, keys // block_k)
        return Mask(self.causal, self.window, block_q, block_k, *counts, segmented)

    @property
    def sizes(self) -> dict[str, int]:
        return {"BQ": self.block[0], "BK": self.block[1]}


def flash_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    segments: Segments = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    with_lse: bool = False,
    block: tuple[int, int] | None = None,
    interpret: Any = None,
) -> Any:
    """``softmax(scale q k^T) v``, differentiable.

    Args:
        q: float32 or bfloat16, shape ``(batch, heads, queries, head_dim)``. TPU v2 and v3 multiply float32 alone.
        k: the same type, shape ``(batch, kv_heads, keys, head_dim)``; ``kv_heads`` divides ``heads``.
        v: as ``k``.
        segments: of queries and of keys, int32, shapes ``(batch, queries)`` and ``(batch, keys)``; a query sees the
            keys of its own segment, and must see one.
        causal: query ``i`` sees the keys ``0 .. i``.
        window: and of these the last ``window``, itself included; it must see one.
        scale: factor of the scores; unless given, ``head_dim ** -0.5``.
        with_lse: return the logarithm of each row's sum of exponentials too.
        block: queries and keys of one block, which divide both lengths; multiples of 128, or all. Unless given, up to
            256 and 512; a length that no multiple of 128 divides is one block.
        interpret: as `tp.launch` takes it.

    Returns:
        The shape and type of ``q``; with ``with_lse`` also float32, shape ``(batch, heads, queries)``. Scores and
        sums are float32.

    Raises:
        LaunchError: shapes or types do not fit each other, or there is a window without ``causal``.
    """
    _check(q, k, v, segments)
    if window is not None and (not causal or window < 1):
        raise tp.LaunchError(f"flash_attention: `window`: expected at least 1 and `causal`, found {window}")
    chosen = block or (blocks.divisor(q.shape[2], 256, 128), blocks.divisor(k.shape[2], 512, 128))
    for what, length, size in zip(("queries", "keys"), (q.shape[2], k.shape[2]), chosen, strict=True):
        if length % size:
            raise tp.LaunchError(f"flash_attention: expected a multiple of {size} {what}, found {length}")
    factor = q.shape[3] ** -0.5 if scale is None else scale
    options = _Options(causal, window, factor, chosen, interpret)
    batch, heads, queries, dim = q.shape
    grouped = q.reshape(batch, k.shape[1], heads // k.shape[1], queries, dim)
    out, lse = _attention(grouped, k, v, segments, options)
    out = out.reshape(q.shape)
    return (out, lse.reshape(q.shape[:3])) if with_lse else out


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _attention(q: jax.Array, k: jax.Array, v: jax.Array, segments: Segments, options: _Options) -> Any:
    """``q``: grouped, shape ``(batch, kv_heads, heads of one, queries, head_dim)``; ``lse`` is a row."""
    ids = () if segments is None else (segments[0][:, :, None], segments[1][:, None, :])
    run = attention_forward.launch(options.mask(q, k, bool(ids)), options.scale, options.interpret)
    return run(q, k, v, *ids, **options.sizes)


def _forward(q: jax.Array, k: jax.Array, v: jax.Array, segments: Segments, options: _Options) -> Any:
    out, lse = _attention(q, k, v, segments, options)
    return (out, lse), (q, k, v, out, lse, segments)


def _backward(options: _Options, kept: Any, gradients: Any) -> tuple[Any, ...]:
    q, k, v, out, lse, segments = kept
    d_out, d_lse = gradients
    # The gradient of the logarithm of a row's sum is the row's weights: it joins what each row subtracts.
    delta = (out.astype(jnp.float32) * d_out.astype(jnp.float32)).sum(axis=-1)[..., None, :] - d_lse
    mask = options.mask(q, k, segments is not None)
    columns = () if segments is None else (segments[0][:, :, None], segments[1][:, None, :])
    rows = () if segments is None else (segments[0][:, None, :], segments[1][:, :, None])
    by_queries = attention_backward.queries_launch(mask, options.scale, options.interpret)
    by_keys = attention_backward.keys_launch(mask, q.shape[2], options.scale, options.interpret)
    d_q = by_queries(q, k, v, d_out, lse, delta, *columns, **options.sizes)
    d_k, d_v = by_keys(q, k, v, d_out, lse, delta, *rows, **options.sizes)
    none = None if segments is None else tuple(np.zeros(x.shape, jax.dtypes.float0) for x in segments)
    return d_q, d_k, d_v, none


_attention.defvjp(_forward, _backward)


def _check(q: jax.Array, k: jax.Array, v: jax.Array, segments: Segments) -> None:
    name = "flash_attention"
    if q.ndim != 4 or k.ndim != 4 or k.shape != v.shape or (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]):
        raise tp.LaunchError(
            f"{name}: expected (batch, heads, length, head_dim), found shapes {q.shape}, {k.shape} and {v.shape}"
        )
    if q.dtype not in (jnp.float32, jnp.bfloat16) or q.dtype != k.dtype or q.dtype != v.dtype:
        raise tp.LaunchError(f"{name}: expected float32 or bfloat16, found {q.dtype}, {k.dtype} and {v.dtype}")
    if q.shape[1] % k.shape[1]:
        raise tp.LaunchError(f"{name}: {k.shape[1]} heads of keys do not divide {q.shape[1]} heads of queries")
    for what, ids, length in zip(("queries", "keys"), segments or (), (q.shape[2], k.shape[2]), strict=False):
        if ids.shape != (q.shape[0], length) or ids.dtype != jnp.int32:
            raise tp.LaunchError(
                f"{name}: `segments` of {what}: expected int32, shape {(q.shape[0], length)}, found {ids.dtype}, "
                f"{ids.shape}"
            )
