"""Right kernels of many sorts: scalar tables, copies, reductions, integer stores, type parameters."""

from typing import Literal as L

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import Add, Block, Dim, FloorDiv, In, InOut, Mul, Multiple, Out, Ref, Scratch, f32, i8, i32
from typedpallas.tpu import HBM, SMEM, VMEM


def gather_kernel[N: Multiple[L[128]]](
    table: In[SMEM, i32, L[4]],
    x: In[VMEM, f32, L[32], N],
    o: Out[VMEM, f32, L[32], N],
) -> None:
    for step in range(4):
        start = table[step] * 8
        o[pl.ds(step * 8, 8), :] = x[pl.ds(pl.multiple_of(start, 8), 8), :]


def norm_kernel[T: tp.Float, R: Dim, N: Dim](
    x: In[VMEM, T, R, N],
    scale: In[VMEM, T, N],
    o: Out[VMEM, T, R, N],
) -> None:
    v = x[...].astype(jnp.float32)
    mean = jnp.mean(v, axis=1, keepdims=True)
    centred = v - mean
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    o[...] = (centred * lax.rsqrt(variance + 1e-6)).astype(o.dtype) * scale[...]


def halves_kernel[N: Dim](
    x: In[VMEM, f32, L[8], Mul[L[2], N]],
    o: Out[VMEM, f32, L[8], N],
    both: Out[VMEM, f32, L[8], Add[N, N]],
) -> None:
    n = x.shape[1] // 2
    o[...] = x[:, :n] + x[:, n:]
    left, right = jnp.split(x[...], 2, axis=1)
    both[:, :n] = right
    both[:, n:] = left


def blocked_kernel[M: Multiple[L[8]], N: Dim](
    x: In[VMEM, f32, M, N], o: Out[VMEM, f32, FloorDiv[M, L[8]], N]
) -> None:
    rows, columns = x.shape
    o[...] = x[...].reshape(rows // 8, 8, columns).sum(axis=1)


def integers_kernel(x: In[VMEM, i32, L[32], L[128]], o: Out[VMEM, i8, L[32], L[128]]) -> None:
    o[...] = x[...]


def bump(ref: Ref[VMEM, f32, L[8], L[128]], row: int, by: float) -> None:
    ref[row, :] = ref[row, :] + by


def in_place_kernel(x: In[VMEM, f32, L[8], L[128]], o: InOut[VMEM, f32, L[8], L[128]]) -> None:
    o[...] = x[...]
    for row in range(8):
        bump(o, row, float(row))
    o[::2, :] = o[::2, :] * 2.0
    o[-1:, :] = jnp.zeros((1, 128), jnp.float32)
    o.at[pl.ds(0, 4)][1] = x[0, :]


def copy_kernel(
    x: In[HBM, f32, L[32], L[128]],
    o: Out[VMEM, f32, L[8], L[128]],
    stage: Scratch[VMEM, f32, L[8], L[128]],
) -> None:
    pltpu.sync_copy(x.at[pl.ds(8, 8), :], stage)
    o[...] = stage[...] * 3.0


def softmax[R: Dim, N: Dim](x: Block[f32, R, N]) -> Block[f32, R, N]:
    top = x.max(axis=-1, keepdims=True)
    weights = jnp.exp(x - top)
    return weights / jnp.sum(weights, axis=-1, keepdims=True)


def softmax_kernel[R: Dim, N: Dim](x: In[VMEM, f32, R, N], o: Out[VMEM, f32, R, N]) -> None:
    def body(i, _):
        o[pl.ds(i, 1), :] = softmax(x[pl.ds(i, 1), :])
        return _

    lax.fori_loop(0, x.shape[0], body, None)


def _call(kernel, *operands, shape, dtype=jnp.float32, **more):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(shape, dtype), interpret=True, **more)(*operands)


def run() -> None:
    x = jax.random.normal(jax.random.key(0), (32, 128), jnp.float32)
    order = np.array([3, 1, 0, 2])
    table = pl.BlockSpec(memory_space=pltpu.SMEM)
    got = _call(gather_kernel, order.astype(np.int32), x, shape=x.shape, in_specs=[table, pl.BlockSpec(x.shape)])
    np.testing.assert_array_equal(got, x.reshape(4, 8, 128)[order].reshape(32, 128))

    half = _call(norm_kernel, x.astype(jnp.bfloat16), jnp.ones(128, jnp.bfloat16), shape=x.shape, dtype=jnp.bfloat16)
    assert half.dtype == jnp.bfloat16 and abs(float(half.astype(jnp.float32).mean())) < 0.01

    both = [jax.ShapeDtypeStruct((8, 64), jnp.float32), jax.ShapeDtypeStruct((8, 128), jnp.float32)]
    added, turned = pl.pallas_call(halves_kernel, out_shape=both, interpret=True)(x[:8])
    np.testing.assert_allclose(added, x[:8, :64] + x[:8, 64:], rtol=1e-6)
    np.testing.assert_array_equal(turned, jnp.roll(x[:8], 64, axis=1))

    summed = _call(blocked_kernel, x, shape=(4, 128))
    np.testing.assert_allclose(summed, x.reshape(4, 8, 128).sum(axis=1), rtol=1e-5, atol=1e-5)

    numbers = jnp.arange(32 * 128, dtype=jnp.int32).reshape(32, 128) % 100
    np.testing.assert_array_equal(_call(integers_kernel, numbers, shape=(32, 128), dtype=jnp.int8), numbers)
    _call(in_place_kernel, x[:8], shape=(8, 128))

    hbm = {"in_specs": [pl.BlockSpec(memory_space=pltpu.HBM)], "scratch_shapes": [pltpu.VMEM((8, 128), jnp.float32)]}
    np.testing.assert_array_equal(_call(copy_kernel, x, shape=(8, 128), **hbm), x[8:16] * 3.0)
    np.testing.assert_allclose(_call(softmax_kernel, x, shape=x.shape), jax.nn.softmax(x, axis=-1), rtol=1e-5)
