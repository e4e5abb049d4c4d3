"""What a kernel's body does on every path: stores that are nowhere, copies that nothing waits for."""

from typing import Literal as L

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import In, Out, Scratch, f32
from typedpallas.tpu import DMA, HBM, VMEM

OUT = jax.ShapeDtypeStruct((8, 128), jnp.float32)
SEMAPHORE = [pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA]


def sums(x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]], acc: Scratch[VMEM, f32, L[8], L[128]]) -> None:
    acc[...] += x[...]  # E: read-before-write

    @pl.when(pl.program_id(0) == 3)
    def _() -> None:
        o[...] = acc[...]


def unwaited(
    x: In[HBM, f32, L[8], L[128]],
    o: Out[VMEM, f32, L[8], L[128]],
    buffer: Scratch[VMEM, f32, L[8], L[128]],
    done: Scratch[DMA],
) -> None:
    pltpu.make_async_copy(x, buffer, done).start()  # E: copy-not-waited
    o[...] = buffer[...]


def early(
    x: In[HBM, f32, L[8], L[128]],
    o: Out[VMEM, f32, L[8], L[128]],
    buffer: Scratch[VMEM, f32, L[8], L[128]],
    done: Scratch[DMA],
) -> None:
    copy = pltpu.make_async_copy(x, buffer, done)
    copy.start()
    o[...] = buffer[...] * 2.0  # E: read-before-wait
    copy.wait()


WHOLE = pl.BlockSpec((8, 128), lambda i: (0, 0))
FAR = pl.BlockSpec(memory_space=pltpu.HBM)


def run(x: jax.Array) -> None:
    scratch = [pltpu.VMEM((8, 128), jnp.float32)]
    pl.pallas_call(sums, OUT, grid=(4,), in_specs=[WHOLE], out_specs=WHOLE, scratch_shapes=scratch)(x)
    pl.pallas_call(unwaited, OUT, grid=(1,), in_specs=[FAR], out_specs=WHOLE, scratch_shapes=SEMAPHORE)(x)
    pl.pallas_call(early, OUT, grid=(1,), in_specs=[FAR], out_specs=WHOLE, scratch_shapes=SEMAPHORE)(x)


def launched[R: tp.Dim, C: tp.Dim](x: In[VMEM, f32, R, C], o: Out[VMEM, f32, R, C]) -> None:
    o[...] += x[...]  # E: read-before-write


LAUNCH = tp.launch(launched, "(i R) (j C) -> (i R) (j C)", grid="i j")
