"""The memories of a GPU and what moves data between them."""

from typing import Literal as L

from jax.experimental.pallas import mosaic_gpu as plgpu

from typedpallas import Dim, In, Out, Scratch, bf16, f32, gpu


def hopper[M: Dim, N: Dim](
    x: In[gpu.GMEM, bf16, M, N],
    y: In[gpu.GMEM, bf16, N, M],
    o: Out[gpu.GMEM, bf16, M, M],
    a: Scratch[gpu.SMEM, bf16, M, N],
    b: Scratch[gpu.SMEM, bf16, N, M],
    c: Scratch[gpu.SMEM, bf16, M, M],
    acc: Scratch[gpu.ACC, f32, M, M],
    full: Scratch[gpu.Barrier, L[2]],
) -> None:
    gpu.copy_gmem_to_smem(x, a, full.at[0])
    gpu.copy_gmem_to_smem(y, b, full.at[1])
    plgpu.barrier_wait(full.at[0])
    plgpu.barrier_wait(full.at[1])
    gpu.wgmma(acc, a, b)
    gpu.wgmma(acc, a[...], b)
    c[...] = acc[...].astype(c.dtype)
    plgpu.commit_smem()  # type: ignore[no-untyped-call, unused-ignore]
    gpu.copy_smem_to_gmem(c, o)
    plgpu.wait_smem_to_gmem(0)


def ampere[M: Dim](x: In[gpu.GMEM, f32, M], o: Out[gpu.GMEM, f32, M], s: Scratch[gpu.SMEM, f32, M]) -> None:
    gpu.copy_gmem_to_smem(x, s)
    o[...] = s[...] + x[...]


def blackwell[M: Dim](t: Scratch[gpu.TMEM, f32, M, L[128]], s: Scratch[gpu.SMEM, f32, M, L[128]]) -> None:
    gpu.async_copy_smem_to_tmem(s, t)
    gpu.async_store_tmem(t, gpu.async_load_tmem(t) * 2.0)
