"""Attention of one new token a sequence over a paged cache, on any machine."""

import jax
import jax.numpy as jnp

import typedpallas as tp
from typedpallas.launching.choose import choices


def paged_attention(
    q: jax.Array,
    k_pages: jax.Array,
    v_pages: jax.Array,
    table: jax.Array,
    lengths: jax.Array,
    *,
    scale: float | None = None,
) -> jax.Array:
    """``softmax(scale q k^T) v`` of one token of each sequence over the tokens of its pages.

    A Hopper GPU runs the kernel of `typedpallas.kernels.gpu` for float16 and bfloat16, heads of 64 or 128 dims and
    pages of 64 or 128 tokens; a TPU that of `typedpallas.kernels.tpu` for float32 and, from v4 on,
    bfloat16, heads of multiples of 64 dims and pages of multiples of 8 tokens. Whatever else, and every other
    machine, runs plain XLA, which gathers the pages first.

    Args:
        q: any float type, shape ``(batch, heads, head_dim)``.
        k_pages: the same type, shape ``(kv_heads, pages, page_size, head_dim)``; ``kv_heads`` divides ``heads``.
        v_pages: as ``k_pages``.
        table: int32, shape ``(batch, most)``: the pages of each sequence, in order. What lies past a sequence's
            length is not looked at, but must be a page.
        lengths: int32, shape ``(batch,)``: tokens of each sequence, at least 1.
        scale: factor of the scores; unless given, ``head_dim ** -0.5``.

    Returns:
        The shape and type of ``q``; scores and sums are float32.

    Raises:
        LaunchError: the shapes do not fit each other.
    """
    shapes = f"found shapes {q.shape}, {k_pages.shape}, {v_pages.shape}, {table.shape} and {lengths.shape}"
    if q.ndim != 3 or k_pages.ndim != 4 or k_pages.shape != v_pages.shape or q.shape[2] != k_pages.shape[3]:
        raise tp.LaunchError(f"paged_attention: expected (batch, heads, head_dim) and pages of such heads, {shapes}")
    if table.ndim != 2 or table.shape[0] != q.shape[0] or lengths.shape != q.shape[:1]:
        raise tp.LaunchError(f"paged_attention: expected a row of pages and a length for each sequence, {shapes}")
    if q.shape[1] % k_pages.shape[0]:
        raise tp.LaunchError(f"paged_attention: {k_pages.shape[0]} heads of keys do not divide {q.shape[1]} heads")
    factor = q.shape[2] ** -0.5 if scale is None else scale
    if _fits(q, k_pages):
        from typedpallas.kernels.gpu.decode import paged_attention as on_hopper

        return on_hopper(q, k_pages, v_pages, table.astype(jnp.int32), lengths.astype(jnp.int32), scale=factor)
    if _fits_tpu(q, k_pages):
        from typedpallas.kernels.tpu.paged_attention import paged_attention as on_tpu

        return on_tpu(q, k_pages, v_pages, table.astype(jnp.int32), lengths.astype(jnp.int32), scale=factor)
    return reference(q, k_pages, v_pages, table, lengths, factor)


def _fits_tpu(q: jax.Array, pages: jax.Array) -> bool:
    from typedpallas.kernels.tpu import blocks

    same = pages.dtype == q.dtype
    return same and q.shape[2] % 64 == 0 and pages.shape[2] % 8 == 0 and blocks.served(q.dtype)


def _fits(q: jax.Array, pages: jax.Array) -> bool:
    """Whether the machine at hand has a kernel for such heads and pages."""
    way = choices(None, None)[0]
    hopper = not way.interpret and way.capability is not None and way.capability[0] == 9
    kind = q.dtype in (jnp.float16, jnp.bfloat16) and pages.dtype == q.dtype
    return (
        hopper and kind and q.shape[2] in (64, 128) and pages.shape[2] in (64, 128) and q.shape[1] <= 64 * len(pages)
    )


def reference(
    q: jax.Array, k_pages: jax.Array, v_pages: jax.Array, table: jax.Array, lengths: jax.Array, scale: float
) -> jax.Array:
    """The definition, in plain `jax.numpy`."""
    heads, page = k_pages.shape[0], k_pages.shape[2]
    keys, values = (
        x[:, table].reshape(heads, table.shape[0], -1, x.shape[3]).astype(jnp.float32) for x in (k_pages, v_pages)
    )
    grouped = q.reshape(q.shape[0], heads, -1, q.shape[2]).astype(jnp.float32)
    scores = jnp.einsum("bhgd,hbkd->bhgk", grouped, keys) * scale
    seen = jnp.arange(table.shape[1] * page)[None] < lengths[:, None]
    weights = jax.nn.softmax(jnp.where(seen[:, None, None], scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhgk,hbkd->bhgd", weights, values).reshape(q.shape).astype(q.dtype)
