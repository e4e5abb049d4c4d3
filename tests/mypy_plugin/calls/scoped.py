"""`pl.run_scoped`: the functions that it runs know what they are given, without annotations."""
# ruff: noqa: E501

import functools
from typing import Literal as L
from typing import reveal_type

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from typedpallas import Dim, In, Out, f32
from typedpallas.tpu import HBM, VMEM

SHAPE: tuple[int, ...] = (8, 128)


def kernel[R: Dim](x: In[HBM, f32, R, L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None:
    def body(buffer, done):
        pltpu.sync_copy(x.at[pl.ds(0, 8)], buffer)
        pltpu.sync_copy(x.at[pl.ds(0, 16)], buffer)  # E: copy to `buffer` moves another shape: expected `f32[8, 128]`, found `f32[16, 128]` from `x`  [copy-shape-mismatch]
        pl.semaphore_wait(done.at[0])  # E: `done` is a DMA semaphore: expected a regular or barrier semaphore for `pl.semaphore_wait`, found a DMA semaphore  [semaphore-as-data]
        o[...] = buffer[...]

    pl.run_scoped(body, pltpu.VMEM((8, 128), jnp.float32), done=pltpu.SemaphoreType.DMA((2,)))
    pl.run_scoped(lambda b: reveal_type(b[0]), pltpu.VMEM((8, 128), jnp.float32))  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, Literal[128]]"
    size = x.shape[0]

    @functools.partial(pl.run_scoped, buffer=pltpu.VMEM((size, 128), jnp.bfloat16), other=pltpu.VMEM(SHAPE, jnp.float32))
    def _(buffer, other):
        o[...] = buffer[0:8, :].astype(jnp.float32)
        o[...] = buffer[0:8, :]  # E: cannot store to `o`: expected `f32`, found `bf16`  [dtype-mismatch]
        o[...] = other[...]


def annotated(o: Out[VMEM, f32, L[8], L[128]]) -> None:
    def body(buffer: Out[VMEM, f32, L[8], L[128]]) -> None:
        o[...] = buffer[...]

    pl.run_scoped(body, pltpu.VMEM((8, 128), jnp.float32))
