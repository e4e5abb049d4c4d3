"""Pallas's own functions take typed refs."""

from typing import Literal as L

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu

from typedpallas import Dim, In, Out, Scratch, f32, gpu, tpu


def on_tpu[M: Dim, N: Dim](
    x: In[tpu.HBM, f32, M, N], o: Out[tpu.VMEM, f32, M, N], done: Scratch[tpu.DMA], signal: Scratch[tpu.REGULAR]
) -> None:
    pltpu.sync_copy(x, o)
    pltpu.make_async_copy(x.at[pl.ds(0, 8)], o.at[pl.ds(0, 8)], done).start()
    pl.semaphore_signal(signal, 1)
    pltpu.store(o, pltpu.load(o) + jnp.zeros_like(o[...]))


def on_gpu[M: Dim](
    x: In[gpu.GMEM, f32, M], o: Out[gpu.GMEM, f32, M], s: Scratch[gpu.SMEM, f32, M], full: Scratch[gpu.Barrier, L[2]]
) -> None:
    plgpu.copy_gmem_to_smem(x, s, full.at[0])
    plgpu.barrier_wait(full.at[0])
    plgpu.copy_smem_to_gmem(s, o)
