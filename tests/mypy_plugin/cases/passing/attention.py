"""Flash attention with an online softmax: a loop over blocks of keys inside the kernel."""

from typing import Literal as L

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from typedpallas import Block, Dim, In, Multiple, Out, f32
from typedpallas.tpu import VMEM

BK = 128


def masked[Q: Dim, K: Dim](scores: Block[f32, Q, K], row: int | jax.Array, column: jax.Array) -> Block[f32, Q, K]:
    rows = row + lax.broadcasted_iota(jnp.int32, scores.shape, 0)
    columns = column + lax.broadcasted_iota(jnp.int32, scores.shape, 1)
    return jnp.where(rows >= columns, scores, -1e30)


def attention_kernel[BQ: Multiple[L[8]], S: Multiple[L[128]], D: Dim](
    q: In[VMEM, f32, BQ, D],
    k: In[VMEM, f32, S, D],
    v: In[VMEM, f32, S, D],
    o: Out[VMEM, f32, BQ, D],
) -> None:
    queries = q[...] * (1.0 / q.shape[1] ** 0.5)
    block = pl.program_id(0)

    def body(j, carry):
        acc, top, total = carry
        keys = k[pl.ds(j * BK, BK), :]
        values = v[pl.ds(j * BK, BK), :]
        scores = lax.dot_general(queries, keys, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
        scores = masked(scores, block * q.shape[0], j * BK)
        new_top = jnp.maximum(top, jnp.max(scores, axis=1, keepdims=True))
        weights = jnp.exp(scores - new_top)
        scale = jnp.exp(top - new_top)
        acc = acc * scale + jnp.dot(weights, values, preferred_element_type=jnp.float32)
        return acc, new_top, total * scale + weights.sum(axis=1, keepdims=True)

    start = (
        jnp.zeros(o.shape, jnp.float32),
        jnp.full((q.shape[0], 1), -1e30, jnp.float32),
        jnp.zeros((q.shape[0], 1), jnp.float32),
    )
    acc, top, total = lax.fori_loop(0, k.shape[0] // BK, body, start)
    o[...] = acc / total


def run() -> None:
    q, k, v = (jax.random.normal(jax.random.key(i), (256, 64), jnp.float32) for i in range(3))
    got = pl.pallas_call(
        attention_kernel,
        grid=(4,),
        in_specs=[
            pl.BlockSpec((64, 64), lambda i: (i, 0)),
            pl.BlockSpec((256, 64), lambda i: (0, 0)),
            pl.BlockSpec((256, 64), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((64, 64), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((256, 64), jnp.float32),
        interpret=True,
    )(q, k, v)
    scores = jnp.where(jnp.tri(256, dtype=bool), q @ k.T / 8.0, -jnp.inf)
    np.testing.assert_allclose(got, jax.nn.softmax(scores) @ v, rtol=1e-4, atol=1e-4)
