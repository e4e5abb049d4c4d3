"""A kernel with every direction, helpers, views and semaphores."""

from typing import Literal as L

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from typedpallas import Block, Dim, In, InOut, Mul, Multiple, Out, Ref, Scratch, bf16, f32, tpu
from typedpallas.tpu import ANY, DMA, HBM, VMEM


def exponent[M: Dim, N: Dim](x: Ref[VMEM, f32, M, N]) -> Block[f32, M, N]:
    return jnp.exp(x[...])


def doubled[*S](x: Ref[VMEM, f32, *S]) -> Block[f32, *S]:
    return x[...] * 2.0


def cleared[M: Dim, N: Dim](x: InOut[VMEM, f32, M, N]) -> None:
    x[...] = x[...] * 0.0


def kernel[BM: Multiple[L[8]], BN: Multiple[L[128]]](
    x: In[VMEM, f32, BM, BN],
    half: In[VMEM, bf16, BM, BN],
    twice: In[VMEM, f32, Mul[L[2], BM], BN],
    both: InOut[VMEM, f32, BM, BN],
    o: Out[VMEM, f32, BM, BN],
    acc: Scratch[VMEM, f32, BM, BN],
) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        acc[...] = x[...]

    cleared(both)
    acc[...] += exponent(x) + doubled(acc) + half[...]
    both[pl.ds(0, 8), :] = doubled(twice)[:8]
    o[...] = acc[...].astype(o.dtype)
    o[0, :] = x[1, :]
    o[pl.ds(0, 8), :] = x.at[pl.ds(8, 8)][...] + x[0:8, :]
    o.at[pl.ds(0, 8)][...] = x[pl.ds(0, 8), :]
    rows, columns = x.shape
    o[pl.ds(rows // 2, 8), pl.ds(0, columns)] = x[pl.ds(0, 8), :]
    both.set(x.get() + len(x) + x.ndim + x.size)


def copies[M: Dim](
    table: In[HBM, f32, M, L[128]],
    anywhere: In[ANY, f32, M, L[128]],
    o: Out[HBM, f32, M, L[128]],
    stage: Scratch[VMEM, f32, L[8], L[128]],
    done: Scratch[DMA],
    many: Scratch[DMA, L[2]],
) -> None:
    tpu.sync_copy(table.at[pl.ds(0, 8)], stage)
    copy = tpu.async_copy(anywhere.at[pl.ds(0, 8)], stage, done)
    copy.wait()
    other = tpu.make_async_copy(stage, o.at[pl.ds(0, 8)], many.at[0])
    other.start()
    other.wait()
    sent = tpu.make_async_remote_copy(stage, stage, many.at[0], many.at[1], {"x": lax.axis_index("x")})
    sent.start()
    sent.wait_recv()
    sent.wait_send()
    tpu.async_remote_copy(stage, stage, done, many.at[0], (0, 1)).wait()
