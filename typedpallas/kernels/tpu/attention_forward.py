"""Flash attention, forward, on TPUs: one block of keys after the other, the softmax corrected as it goes."""

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
from typedpallas.kernels.tpu.attention_masks import MASKED, Mask
from typedpallas.tpu import VMEM

BY_ROWS = (((1,), (1,)), ((), ()))
"""The product of a matrix with the transpose of another."""


def attention_kernel[T: tp.Float, BQ: Dim, BK: Dim, D: Dim](
    q: In[VMEM, T, BQ, D],
    k: In[VMEM, T, BK, D],
    v: In[VMEM, T, BK, D],
    out: Out[VMEM, T, BQ, D],
    lse: Out[VMEM, f32, L[1], BQ],
    highest: Scratch[VMEM, f32, BQ, L[1]],
    total: Scratch[VMEM, f32, BQ, L[1]],
    mean: Scratch[VMEM, f32, BQ, D],
    *,
    mask: Mask,
    scale: float,
) -> None:
    """One block of keys for one block of queries. ``highest`` is in units of log2, ``lse`` natural."""
    _run((q, k, v), None, (out, lse), (highest, total, mean), mask, scale)


def segmented_attention_kernel[T: tp.Float, BQ: Dim, BK: Dim, D: Dim](
    q: In[VMEM, T, BQ, D],
    k: In[VMEM, T, BK, D],
    v: In[VMEM, T, BK, D],
    q_ids: In[VMEM, i32, BQ, L[1]],
    k_ids: In[VMEM, i32, L[1], BK],
    out: Out[VMEM, T, BQ, D],
    lse: Out[VMEM, f32, L[1], BQ],
    highest: Scratch[VMEM, f32, BQ, L[1]],
    total: Scratch[VMEM, f32, BQ, L[1]],
    mean: Scratch[VMEM, f32, BQ, D],
    *,
    mask: Mask,
    scale: float,
) -> None:
    """As `attention_kernel`; only equal segments see each other."""
    _run((q, k, v), (q_ids, k_ids), (out, lse), (highest, total, mean), mask, scale)


def _run(operands: Any, ids: Any, results: Any, state: Any, mask: Mask, scale: float) -> None:
    (out, lse), (highest, total, mean) = results, state
    i, j = pl.program_id(3), pl.program_id(4)

    @pl.when(j == 0)
    def _() -> None:
        highest[...] = jnp.full(highest.shape, MASKED, jnp.float32)
        total[...] = jnp.zeros(total.shape, jnp.float32)
        mean[...] = jnp.zeros(mean.shape, jnp.float32)

    def update(masked: bool) -> None:
        seen = mask.visible(i, j, values(ids)) if masked else None
        _update(operands, state, seen, scale)

    mask.visit(i, j, update)

    @pl.when(j == pl.num_programs(4) - 1)
    def _() -> None:
        out[...] = (mean[...] / total[...]).astype(out.dtype)
        columns.store_as_row(lse, highest[...] * math.log(2) + jnp.log(total[...]))


def _update(operands: Any, state: Any, seen: jax.Array | None, scale: float) -> None:
    """Take in one block of keys; ``seen``: which scores count, all of them if none."""
    (q, k, v), (highest, total, mean) = operands, state
    scores = lax.dot_general(q[...], k[...], BY_ROWS, preferred_element_type=jnp.float32)
    scores = scores * (scale * math.log2(math.e))
    if seen is not None:
        scores = jnp.where(seen, scores, MASKED)
    before = highest[...]
    now = jnp.maximum(before, scores.max(axis=1, keepdims=True))
    shrink, weights = jnp.exp2(before - now), jnp.exp2(scores - now)
    highest[...] = now
    total[...] = total[...] * shrink + weights.sum(axis=1, keepdims=True)
    added = jnp.dot(weights.astype(v.dtype), v[...], preferred_element_type=jnp.float32)
    mean[...] = mean[...] * shrink + added


def values(ids: Any) -> Any:
    """The segments of queries and keys, if there are any."""
    return (None, None) if ids is None else (ids[0][...], ids[1][...])


@functools.cache
def launch(mask: Mask, scale: float, interpret: Any = None) -> tp.Launch:
    """Takes queries, keys and values (and segments), shapes as in the pattern, and ``BQ`` and ``BK``."""

    def keys(b: Any, h: Any, g: Any, i: Any, j: Any) -> Any:
        return b, h, mask.key_block(i, j), 0

    def cost(q: Any, *others: Any) -> pl.CostEstimate:
        lse = jax.ShapeDtypeStruct((*q.shape[:3], 1, q.shape[3]), jnp.float32)
        return mask.cost(2, (q, *others), (q, lse))

    inputs: list[Any] = ["b h g (i BQ) D", *[tp.spec("b h (j BK) D", index=keys)] * 2]
    if mask.segmented:
        ids = tp.spec("b 1 (j BK)", index=lambda b, h, g, i, j: (b, 0, mask.key_block(i, j)))
        inputs += ["b (i BQ) 1", ids]
    return tp.launch(
        functools.partial(segmented_attention_kernel if mask.segmented else attention_kernel, mask=mask, scale=scale),
        [*inputs, "-> b h g (i BQ) D, b h g 1 (i BQ)"],
        grid="b h g i j",
        dims={"j": mask.k_blocks},
        backend="mosaic_tpu",
        interpret=interpret,
        tuning=tp.Tuning(cost=cost),
    )
