"""What Mosaic GPU's copies and matrix units take: errors where a call is."""

from typing import Literal as L

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp
from typedpallas import In, Out, Scratch, bf16, f16, f32, gpu


def products[M: tp.Dim, N: tp.Dim, K: tp.Dim](
    a: Scratch[gpu.SMEM, bf16, M, K],
    b: Scratch[gpu.SMEM, bf16, K, N],
    turned: Scratch[gpu.SMEM, bf16, N, K],
    other: Scratch[gpu.SMEM, f16, K, N],
    far: In[gpu.GMEM, bf16, K, N],
    narrow: Scratch[gpu.SMEM, bf16, M, L[24]],
    tall: Scratch[gpu.SMEM, bf16, L[24], N],
    few: Scratch[gpu.SMEM, bf16, L[32], K],
    acc: Scratch[gpu.ACC, f32, M, N],
    acc_few: Scratch[gpu.ACC, f32, L[32], N],
    half: Scratch[gpu.ACC, bf16, M, N],
) -> None:
    plgpu.wgmma(acc, a, b)
    plgpu.wgmma(acc, a[...], b)
    plgpu.wgmma(acc, a, turned.transpose((1, 0)))
    gpu.wgmma(acc, a, b)
    plgpu.wgmma(acc, a, turned)  # E: shape-mismatch
    plgpu.wgmma(acc, a, other)  # E: dtype-mismatch
    plgpu.wgmma(acc, a, far)  # E: wgmma-operand-space
    gpu.wgmma(acc, a, far)  # E: wgmma-operand-space
    plgpu.wgmma(acc, narrow, tall)  # E: wgmma-shape
    plgpu.wgmma(acc_few, few, b)  # E: wgmma-shape
    plgpu.wgmma(half, a, b)  # E: wgmma-shape

    def scoped(sums):
        plgpu.wgmma(sums, a, b)
        plgpu.wgmma(sums, narrow, tall)  # E: wgmma-shape
        plgpu.wgmma(sums, a, turned)  # E: shape-mismatch

    pl.run_scoped(scoped, plgpu.ACC((64, 64), jnp.float32))


def copies[M: tp.Dim](
    x: In[gpu.GMEM, bf16, M, L[64]],
    ragged: In[gpu.GMEM, bf16, L[64], L[60]],
    odd: In[gpu.GMEM, bf16, L[512], L[64]],
    o: Out[gpu.GMEM, bf16, L[64], L[64]],
    tile: Scratch[gpu.SMEM, bf16, L[64], L[64]],
    cut: Scratch[gpu.SMEM, bf16, L[64], L[60]],
    long: Scratch[gpu.SMEM, bf16, L[512], L[64]],
    thin: Scratch[gpu.SMEM, bf16, L[64], L[4]],
    t: Scratch[gpu.TMEM, f32, L[64], L[64]],
    arrived: Scratch[gpu.Barrier],
    many: Scratch[gpu.Barrier, L[2]],
) -> None:
    plgpu.copy_gmem_to_smem(x.at[pl.ds(0, 64)], tile, arrived)
    plgpu.copy_gmem_to_smem(x.at[pl.ds(0, 64), :], tile, many.at[0])
    plgpu.copy_smem_to_gmem(tile, o)
    plgpu.copy_gmem_to_smem(ragged, cut)
    plgpu.copy_gmem_to_smem(ragged, cut, arrived)  # E: tma-box
    plgpu.copy_gmem_to_smem(x.at[pl.ds(0, 64), pl.ds(0, 4)], thin, arrived)  # E: tma-box
    plgpu.copy_gmem_to_smem(odd, long, arrived)
    plgpu.copy_gmem_to_smem(tile, x, arrived)  # E: wrong-space
    gpu.copy_gmem_to_smem(x.at[pl.ds(0, 64)], tile, tile)  # E: wrong-space
    gpu.copy_smem_to_gmem(t, o)  # E: wrong-space
    plgpu.async_load_tmem(tile)  # E: wrong-space
    plgpu.async_load_tmem(t)


TILED = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))  # type: ignore[abstract,unused-ignore]
NARROW = (plgpu.TilingTransform((8, 32)), plgpu.SwizzleTransform(64))  # type: ignore[abstract,unused-ignore]
BUFFERS = [
    plgpu.SMEM((64, 64), jnp.bfloat16, transforms=TILED),
    plgpu.SMEM((64, 64), jnp.float32, transforms=TILED),  # E: swizzle-mismatch
    plgpu.SMEM((64, 96), jnp.bfloat16, transforms=TILED),  # E: swizzle-mismatch
    plgpu.SMEM((64, 96), jnp.bfloat16, transforms=NARROW),
    plgpu.SMEM((64, 96), jnp.bfloat16),
]
