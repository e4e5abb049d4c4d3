"""Values in lists, dicts, tuples, branches and helpers of every sort: nothing here is wrong."""

import functools
from collections.abc import Callable
from typing import Literal as L

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from typedpallas import Block, Dim, Float, In, Out, f32
from typedpallas.tpu import VMEM


def plain(x: jax.Array) -> jax.Array:
    return x * 2.0


def unannotated(x, scale=1.0):
    return x * scale


def generic[T: Float, R: Dim, N: Dim](x: Block[T, R, N]) -> Block[T, R, N]:
    return x * 2 + jnp.zeros_like(x)


def any_rank[*S](x: Block[f32, *S]) -> Block[f32, *S]:
    return jnp.tanh(x)


def through_plain[R: Dim, N: Dim](x: Block[f32, R, N]) -> Block[f32, R, N]:
    return plain(x)


def apply[R: Dim, N: Dim](f: Callable[[jax.Array], jax.Array], x: Block[f32, R, N]) -> jax.Array:
    return f(x)


@functools.cache
def mask(rows: int) -> np.ndarray:
    return np.ones((rows, 1), np.float32)


def kernel[R: Dim](x: In[VMEM, f32, R, L[128]], o: Out[VMEM, f32, R, L[128]], *, factor: float, times: int) -> None:
    v = x[...]
    v = v.T
    v = jnp.transpose(v)
    v = v.astype(jnp.bfloat16)
    v = v.astype(jnp.float32)
    parts = []
    parts.append(v[:, :64])
    parts.append(v[:, 64:96])
    parts.append(v[:, 96:])
    halves = [v[:, :64], v[:, 64:]]
    halves[0] = halves[0] * 1.0
    named = {"left": halves[0], "all": v}
    joined = jnp.concatenate(parts, axis=1) + jnp.concatenate(halves, axis=1) - named["all"]
    scale: float | jax.Array = factor
    if times > 1:
        scale = jnp.float32(factor) * jnp.max(joined)
    joined = joined * scale / scale
    for step in range(times):
        joined = joined + step * 0
    row = joined[0] if times else joined[1]
    total = functools.reduce(lambda a, b: a + b, [row, row, row])
    if total.ndim == 1:
        total = total[None, :]
    if x.shape[1] == 64 or v.shape[0] == 3 or v.ndim == 3 or total.shape == (1, 64):
        total = total * 0
    left, right = jnp.split(joined, 2, axis=1)
    swapped = jnp.concatenate((right, left), axis=-1)
    back = jnp.roll(swapped, 64, 1)
    picked = jnp.where(back > total, back, joined)
    picked = lax.select(picked > 1e9, jnp.full_like(picked, 0), picked)
    loop, _ = lax.scan(lambda carry, _: (carry * 1.0, None), picked, None, length=2)
    looped = lax.fori_loop(0, times, lambda i, c: (c[0] + 1, c[1] + 0.0), (0, loop))[1]
    while_ = lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * 1.0), (0, looped))[1]
    chosen = lax.cond(jnp.sum(while_) > 1e30, lambda: while_, lambda: while_ * 1.0)
    reshaped = chosen.reshape(chosen.shape[0], 2, 64).reshape(-1, 128)
    out = generic(any_rank(through_plain(unannotated(reshaped))) * 0 + reshaped)
    out = apply(lambda z: z * 1.0, out) + float(mask(8)[0, 0]) * 0
    out = jax.vmap(lambda r: r * 1.0)(out)
    rows, columns = x.shape
    out = out.reshape(rows, columns) + jnp.zeros((rows, columns))
    o[pl.ds(0, rows), :] = out * jnp.ones(o.shape, o.dtype) + lax.broadcasted_iota(jnp.float32, v.shape, 0) * 0


def run() -> None:
    x = jax.random.normal(jax.random.key(0), (8, 128), jnp.float32)
    got = pl.pallas_call(
        functools.partial(kernel, factor=2.0, times=2),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=True,
    )(x)
    rounded = x.astype(jnp.bfloat16).astype(jnp.float32)
    np.testing.assert_allclose(got, rounded * 2, rtol=1e-5, atol=1e-5)
