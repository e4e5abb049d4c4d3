"""Functions that take functions: what they give back need not have the shape that went in. All of it is right."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from typedpallas import Block, Dim, In, Out, f32
from typedpallas.tpu import VMEM


def doubled[N: Dim](x: Block[f32, N]) -> Block[f32, N]:
    return x * 2.0


def step[N: Dim](total: Block[f32, N], row: Block[f32, N]) -> tuple[Block[f32, N], None]:
    return total + row, None


def apply[T](f: Callable[[T], T], x: T) -> T:
    return f(x)


def kernel[R: Dim, N: Dim](x: In[VMEM, f32, R, N], o: Out[VMEM, f32, R, N]) -> None:
    v = x[...]
    o[...] = jax.vmap(doubled)(v)
    o[...] = jax.vmap(doubled, in_axes=1, out_axes=1)(v)
    o[...] = apply(jnp.transpose, apply(lambda z: z.T, v))
    o[...] = apply(jnp.exp, v)
    stacked = functools.reduce(lambda a, b: jnp.concatenate([a, b]), [v, v])
    o[...] = stacked[: v.shape[0]]
    o[...] = functools.reduce(jnp.maximum, [v, v], v)
    total, _ = lax.scan(step, v[0] * 0.0, v)
    again, _ = lax.scan(lambda a, row: (a + row, None), v[0] * 0.0, v)
    (third, count), _ = lax.scan(lambda a, row: ((a[0] + row, a[1] + 1), None), (v[0] * 0.0, 0), v)
    o[0, :] = jax.checkpoint(doubled)(total) + jax.jit(doubled)(again) - third * 4.0 + count * 0
    for power in map(jnp.square, [v, v]):
        o[...] = power + o[...] * 0.0
    o[...] += v
    best = max([v, v], key=lambda z: 1)
    o[...] = o[...] + best * 0.0


def run() -> None:
    x = jax.random.normal(jax.random.key(0), (8, 128), jnp.float32)
    got = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x)
    np.testing.assert_allclose(got, x * x + x, rtol=1e-5, atol=1e-5)
