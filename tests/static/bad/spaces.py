"""Loads and stores that the memory does not have."""

from typing import Literal as L

from typedpallas import Dim, In, InOut, Out, Ref, Scratch, f32, gpu
from typedpallas.tpu import ANY, DMA, HBM, SMEM, VMEM


def needs_vmem[M: Dim, N: Dim](x: Ref[VMEM, f32, M, N]) -> None: ...
def needs_gpu_shared[M: Dim](x: Ref[gpu.SMEM, f32, M]) -> None: ...
def needs_tpu_scalar[M: Dim](x: Ref[SMEM, f32, M]) -> None: ...


def kernel[M: Dim, N: Dim](
    x: In[VMEM, f32, M, N],
    far: In[HBM, f32, M, N],
    somewhere: InOut[ANY, f32, M, N],
    scalars: In[SMEM, f32, L[4]],
    counts: Out[SMEM, f32, L[4]],
    table: Scratch[SMEM, f32, L[4], L[4]],
    shared: Scratch[gpu.SMEM, f32, L[4]],
    tensor: Scratch[gpu.TMEM, f32, L[128], L[128]],
    sem: Scratch[DMA],
    o: Out[VMEM, f32, M, N],
) -> None:
    o[...] = far[...]  # refused
    o[0, :] = far[0, :]  # refused
    o[...] = somewhere[...]  # refused
    o[...] = somewhere.at[0][...]  # refused
    somewhere[...] = o[...]  # refused
    o[...] = scalars[...]  # refused
    o[...] = scalars[0:2]  # refused
    o[...] = table[0]  # refused
    counts[...] = o[0, :]  # refused
    counts[0:2] = o[0, 0:2]  # refused
    table[0] = 1  # refused
    o[...] = tensor[...]  # refused
    tensor[...] = o[...]  # refused
    o[...] = sem[...]  # refused
    needs_vmem(far)  # refused
    needs_vmem(somewhere)  # refused
    needs_vmem(table)  # refused
    needs_gpu_shared(scalars)  # refused
    needs_tpu_scalar(shared)  # refused
    needs_vmem(x)
    needs_gpu_shared(shared)
    needs_tpu_scalar(counts)
