"""Flash attention, backward, on TPUs: one kernel for the gradient of queries, one for those of keys and values.

Weights are computed again from the logarithms of the rows' sums. The kernel that owns keys has its scores transposed
(keys by queries), so that no product needs a transpose; it uses what belongs to queries as rows, the other one as
columns. Both read it as rows.
"""

import functools
import math
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

import typedpallas as tp
from typedpallas import Dim, In, Out, Scratch, f32, i32
from typedpallas.kernels.tpu import columns
from typedpallas.kernels.tpu.attention_forward import BY_ROWS, values
from typedpallas.kernels.tpu.attention_masks import Mask
from typedpallas.tpu import VMEM

_LOG2_E = math.log2(math.e)


def queries_kernel[T: tp.Float, BQ: Dim, BK: Dim, D: Dim](
    q: In[VMEM, T, BQ, D],
    k: In[VMEM, T, BK, D],
    v: In[VMEM, T, BK, D],
    d_out: In[VMEM, T, BQ, D],
    lse: In[VMEM, f32, L[1], BQ],
    delta: In[VMEM, f32, L[1], BQ],
    d_q: Out[VMEM, T, BQ, D],
    acc: Scratch[VMEM, f32, BQ, D],
    lse_column: Scratch[VMEM, f32, BQ, L[1]],
    delta_column: Scratch[VMEM, f32, BQ, L[1]],
    *,
    mask: Mask,
    scale: float,
) -> None:
    """The gradient of a block of queries, one block of keys after the other. ``lse`` is natural."""
    _queries((q, k, v, d_out, lse, delta), None, d_q, (acc, lse_column, delta_column), mask, scale)


def segmented_queries_kernel[T: tp.Float, BQ: Dim, BK: Dim, D: Dim](
    q: In[VMEM, T, BQ, D],
    k: In[VMEM, T, BK, D],
    v: In[VMEM, T, BK, D],
    d_out: In[VMEM, T, BQ, D],
    lse: In[VMEM, f32, L[1], BQ],
    delta: In[VMEM, f32, L[1], BQ],
    q_ids: In[VMEM, i32, BQ, L[1]],
    k_ids: In[VMEM, i32, L[1], BK],
    d_q: Out[VMEM, T, BQ, D],
    acc: Scratch[VMEM, f32, BQ, D],
    lse_column: Scratch[VMEM, f32, BQ, L[1]],
    delta_column: Scratch[VMEM, f32, BQ, L[1]],
    *,
    mask: Mask,
    scale: float,
) -> None:
    """As `queries_kernel`; only equal segments see each other."""
    _queries((q, k, v, d_out, lse, delta), (q_ids, k_ids), d_q, (acc, lse_column, delta_column), mask, scale)


def keys_kernel[T: tp.Float, BQ: Dim, BK: Dim, D: Dim](
    q: In[VMEM, T, BQ, D],
    k: In[VMEM, T, BK, D],
    v: In[VMEM, T, BK, D],
    d_out: In[VMEM, T, BQ, D],
    lse: In[VMEM, f32, L[1], BQ],
    delta: In[VMEM, f32, L[1], BQ],
    d_k: Out[VMEM, T, BK, D],
    d_v: Out[VMEM, T, BK, D],
    k_acc: Scratch[VMEM, f32, BK, D],
    v_acc: Scratch[VMEM, f32, BK, D],
    *,
    mask: Mask,
    scale: float,
) -> None:
    """The gradients of a block of keys and values, summed over the heads that share them and over the queries."""
    _keys((q, k, v, d_out, lse, delta), None, (d_k, d_v), (k_acc, v_acc), mask, scale)


def segmented_keys_kernel[T: tp.Float, BQ: Dim, BK: Dim, D: Dim](
    q: In[VMEM, T, BQ, D],
    k: In[VMEM, T, BK, D],
    v: In[VMEM, T, BK, D],
    d_out: In[VMEM, T, BQ, D],
    lse: In[VMEM, f32, L[1], BQ],
    delta: In[VMEM, f32, L[1], BQ],
    q_ids: In[VMEM, i32, L[1], BQ],
    k_ids: In[VMEM, i32, BK, L[1]],
    d_k: Out[VMEM, T, BK, D],
    d_v: Out[VMEM, T, BK, D],
    k_acc: Scratch[VMEM, f32, BK, D],
    v_acc: Scratch[VMEM, f32, BK, D],
    *,
    mask: Mask,
    scale: float,
) -> None:
    """As `keys_kernel`; only equal segments see each other."""
    _keys((q, k, v, d_out, lse, delta), (q_ids, k_ids), (d_k, d_v), (k_acc, v_acc), mask, scale)


def _queries(operands: Any, ids: Any, d_q: Any, scratch: Any, mask: Mask, scale: float) -> None:
    q, k, v, d_out, *rows = operands
    acc, lse, delta = scratch
    i, j = pl.program_id(3), pl.program_id(4)

    @pl.when(j == 0)
    def _() -> None:
        _clear(acc)
        columns.store_as_column(lse, rows[0])
        columns.store_as_column(delta, rows[1])

    def update(masked: bool) -> None:
        seen = mask.visible(i, j, values(ids)) if masked else None
        weights = _weights(q[...], k[...], lse[...], seen, scale)
        pull = lax.dot_general(d_out[...], v[...], BY_ROWS, preferred_element_type=jnp.float32) - delta[...]
        acc[...] += jnp.dot((weights * pull).astype(k.dtype), k[...], preferred_element_type=jnp.float32)

    mask.visit(i, j, update)

    @pl.when(j == pl.num_programs(4) - 1)
    def _() -> None:
        d_q[...] = (acc[...] * scale).astype(d_q.dtype)


def _keys(operands: Any, ids: Any, results: Any, sums: Any, mask: Mask, scale: float) -> None:
    q, k, v, d_out, lse, delta = operands
    j, g, i = pl.program_id(2), pl.program_id(3), pl.program_id(4)
    (d_k, d_v), (k_acc, v_acc) = results, sums

    @pl.when((g == 0) & (i == 0))
    def _() -> None:
        _clear(k_acc)
        _clear(v_acc)

    def update(masked: bool) -> None:
        seen = mask.visible(i, j, values(ids), transposed=True) if masked else None
        weights = _weights(k[...], q[...], lse[...], seen, scale)
        v_acc[...] += jnp.dot(weights.astype(v.dtype), d_out[...], preferred_element_type=jnp.float32)
        pull = lax.dot_general(v[...], d_out[...], BY_ROWS, preferred_element_type=jnp.float32) - delta[...]
        k_acc[...] += jnp.dot((weights * pull).astype(q.dtype), q[...], preferred_element_type=jnp.float32)

    mask.visit(i, j, update)

    @pl.when((g == pl.num_programs(3) - 1) & (i == pl.num_programs(4) - 1))
    def _() -> None:
        d_k[...] = (k_acc[...] * scale).astype(d_k.dtype)
        d_v[...] = v_acc[...].astype(d_v.dtype)


def _weights(a: jax.Array, b: jax.Array, lse: jax.Array, seen: jax.Array | None, scale: float) -> jax.Array:
    scores = lax.dot_general(a, b, BY_ROWS, preferred_element_type=jnp.float32)
    weights = jnp.exp2(scores * (scale * _LOG2_E) - lse * _LOG2_E)
    return weights if seen is None else jnp.where(seen, weights, 0)


def _clear(ref: Any) -> None:
    ref[...] = jnp.zeros(ref.shape, ref.dtype)


@functools.cache
def queries_launch(mask: Mask, scale: float, interpret: Any = None) -> tp.Launch:
    """Takes queries, keys, values, the gradient of the result, ``lse``, ``delta`` (and segments), ``BQ``, ``BK``."""

    def keys(b: Any, h: Any, g: Any, i: Any, j: Any) -> Any:
        return b, h, mask.key_block(i, j), 0

    own, row = "b h g (i BQ) D", "b h g 1 (i BQ)"
    inputs: list[Any] = [own, *[tp.spec("b h (j BK) D", index=keys)] * 2, own, row, row]
    if mask.segmented:
        ids = tp.spec("b 1 (j BK)", index=lambda b, h, g, i, j: (b, 0, mask.key_block(i, j)))
        inputs += ["b (i BQ) 1", ids]
    kernel: Any = segmented_queries_kernel if mask.segmented else queries_kernel
    return tp.launch(
        functools.partial(kernel, mask=mask, scale=scale),
        [*inputs, "-> b h g (i BQ) D"],
        grid="b h g i j",
        dims={"j": mask.k_blocks},
        backend="mosaic_tpu",
        interpret=interpret,
        tuning=tp.Tuning(cost=lambda q, *others: mask.cost(3, (q, *others), (q,))),
    )


@functools.cache
def keys_launch(mask: Mask, group: int, scale: float, interpret: Any = None) -> tp.Launch:
    """As `queries_launch`, for ``group`` heads that share one of keys.

    ``lse``, ``delta`` and the segments of queries are rows, those of keys a column.
    """

    def queries(b: Any, h: Any, j: Any, g: Any, i: Any) -> Any:
        return b, h, g, mask.query_block(i, j), 0

    def row(b: Any, h: Any, j: Any, g: Any, i: Any) -> Any:
        return b, h, g, 0, mask.query_block(i, j)

    seen, rows = tp.spec("b h g (i BQ) D", index=queries), tp.spec("b h g 1 (i BQ)", index=row)
    inputs: list[Any] = [seen, *["b h (j BK) D"] * 2, seen, rows, rows]
    if mask.segmented:
        ids = tp.spec("b 1 (i BQ)", index=lambda b, h, j, g, i: (b, 0, mask.query_block(i, j)))
        inputs += [ids, "b (j BK) 1"]
    kernel: Any = segmented_keys_kernel if mask.segmented else keys_kernel
    return tp.launch(
        functools.partial(kernel, mask=mask, scale=scale),
        [*inputs, "-> b h (j BK) D, b h (j BK) D"],
        grid="b h j g i",
        dims={"g": group, "i": mask.q_blocks},
        backend="mosaic_tpu",
        interpret=interpret,
        tuning=tp.Tuning(cost=lambda q, k, *others: mask.cost(4, (q, k, *others), (k, k))),
    )
