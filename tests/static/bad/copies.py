"""Copies that do not exist."""

from typing import Literal as L

from typedpallas import In, Out, Scratch, bf16, f32, gpu, tpu


def on_tpu(
    far: In[tpu.HBM, f32, L[8], L[128]],
    near: Scratch[tpu.VMEM, f32, L[8], L[128]],
    common: Scratch[tpu.CMEM, f32, L[8], L[128]],
    shared: Scratch[gpu.SMEM, f32, L[8], L[128]],
    done: Scratch[tpu.DMA],
    signal: Scratch[tpu.REGULAR],
) -> None:
    tpu.sync_copy(common, near)  # refused
    tpu.sync_copy(far, shared)  # refused
    tpu.sync_copy(done, near)  # refused
    tpu.async_copy(far, near, signal)  # refused
    tpu.async_copy(far, near, near)  # refused
    tpu.make_async_copy(near, common, done)  # refused
    tpu.sync_copy(far[...], near)  # refused
    tpu.sync_copy(near, far)  # refused
    tpu.sync_copy(near, near[...])  # refused
    tpu.async_copy(near, far, done)  # refused
    tpu.make_async_copy(near, far, done)  # refused
    tpu.make_async_remote_copy(common, near, done, done, {"x": 1})  # refused
    tpu.make_async_remote_copy(near, near, done, signal, {"x": 1})  # refused
    tpu.async_remote_copy(near, near, near, done, {"x": 1})  # refused
    tpu.make_async_remote_copy(near, near, done, done, {"x": "1"})  # refused
    tpu.make_async_remote_copy(near, near, done, done, 1)  # refused
    tpu.make_async_remote_copy(near, far, done, done, (1,))  # refused
    tpu.sync_copy(far, near)
    tpu.make_async_copy(near, near, done)


def on_gpu(
    x: In[gpu.GMEM, bf16, L[64], L[64]],
    o: Out[gpu.GMEM, f32, L[64], L[64]],
    a: Scratch[gpu.SMEM, bf16, L[64], L[64]],
    t: Scratch[gpu.TMEM, f32, L[64], L[64]],
    acc: Scratch[gpu.ACC, f32, L[64], L[64]],
    full: Scratch[gpu.Barrier],
    other: Scratch[tpu.SMEM, bf16, L[64], L[64]],
) -> None:
    gpu.copy_gmem_to_smem(a, x, full)  # refused
    gpu.copy_gmem_to_smem(x, o, full)  # refused
    gpu.copy_gmem_to_smem(x, other, full)  # refused
    gpu.copy_gmem_to_smem(x, a, a)  # refused
    gpu.copy_smem_to_gmem(x, a)  # refused
    gpu.copy_smem_to_gmem(a, x)  # refused
    gpu.copy_smem_to_gmem(t, o)  # refused
    gpu.async_copy_smem_to_tmem(x, t)  # refused
    gpu.async_load_tmem(a)  # refused
    gpu.async_store_tmem(a, x[...])  # refused
    gpu.wgmma(acc, x, a)  # refused
    gpu.wgmma(acc, a, a[...])  # refused
    gpu.wgmma(a, a, a)  # refused
    gpu.wgmma(acc, a, a)
    gpu.copy_gmem_to_smem(x, a, full)


def semaphores(done: Scratch[tpu.DMA], ready: Scratch[tpu.REGULAR], met: Scratch[tpu.BARRIER]) -> None:
    tpu.semaphore_signal(ready, 2)
    tpu.semaphore_wait(ready, 2)
    tpu.semaphore_wait(met)
    tpu.semaphore_read(done)
    tpu.semaphore_wait(done)  # refused
    tpu.semaphore_signal(done)  # refused
