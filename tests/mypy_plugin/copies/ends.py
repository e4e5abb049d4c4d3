"""What copies join, and what semaphores count: errors where a call is, whatever goes on around it."""

from typing import Literal as L

from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import In, Out, Scratch, bf16, f32, i32, tpu, u32
from typedpallas.tpu import BARRIER, DMA, HBM, REGULAR, VMEM


def with_pallas[R: tp.Dim, C: tp.Dim](
    x: In[HBM, f32, R, C],
    o: Out[HBM, f32, R, C],
    whole: Scratch[VMEM, f32, R, C],
    narrow: Scratch[VMEM, bf16, R, C],
    signed: Scratch[VMEM, i32, R, C],
    unsigned: Scratch[VMEM, u32, R, C],
    part: Scratch[VMEM, f32, L[8], C],
    done: Scratch[DMA],
    several: Scratch[DMA, L[2]],
    ready: Scratch[REGULAR],
    met: Scratch[BARRIER],
) -> None:
    pltpu.sync_copy(x, whole)
    pltpu.sync_copy(signed, unsigned)
    pltpu.sync_copy(x.at[pl.ds(0, 8)], part)
    pltpu.sync_copy(x, part)  # E: copy-shape-mismatch
    pltpu.sync_copy(x.at[pl.ds(0, 16)], part)  # E: copy-shape-mismatch
    pltpu.sync_copy(x.at[0], part)  # E: copy-shape-mismatch
    pltpu.sync_copy(x, narrow)  # E: dtype-mismatch
    pltpu.sync_copy(whole, x)  # E: store-to-input
    pltpu.sync_copy(part, x.at[pl.ds(0, 8)])  # E: store-to-input
    pltpu.sync_copy(done, whole)  # E: semaphore-as-data
    pltpu.sync_copy(whole, ready)  # E: semaphore-as-data
    pltpu.make_async_copy(x, whole, done)
    pltpu.make_async_copy(x, whole, several.at[0])
    pltpu.make_async_copy(x, whole, several)  # E: semaphore-as-data
    pltpu.make_async_copy(x, whole, ready)  # E: semaphore-as-data
    pltpu.make_async_copy(x, whole, narrow)  # E: semaphore-as-data
    pltpu.make_async_copy(dst_ref=x, src_ref=whole, sem=done).start()  # E: store-to-input
    pltpu.make_async_copy(x, x, done).wait()
    pltpu.make_async_copy(x, narrow, done).wait()
    copy = pltpu.make_async_copy(x, narrow, done)  # E: dtype-mismatch
    copy.start()
    copy.wait()
    pltpu.make_async_remote_copy(x, x, done, done, device_id=1)
    pltpu.make_async_remote_copy(x, o, done, ready, device_id=1)  # E: semaphore-as-data
    pltpu.make_async_remote_copy(x.at[pl.ds(0, 8)], x.at[pl.ds(8, 8)], done, several.at[0], 1).start()
    pltpu.make_async_remote_copy(x.at[pl.ds(0, 8)], o, done, several.at[0], 1).start()  # E: copy-shape-mismatch
    pl.semaphore_wait(ready, 2)
    pl.semaphore_signal(met, 1)
    pl.semaphore_read(done)
    pl.semaphore_wait(done, 2)  # E: semaphore-as-data
    pl.semaphore_signal(several.at[1])  # E: semaphore-as-data
    pl.semaphore_read(several)  # E: semaphore-as-data
    pl.semaphore_wait(whole)  # E: semaphore-as-data


def with_ours[R: tp.Dim, C: tp.Dim](
    x: In[HBM, f32, R, C],
    whole: Scratch[VMEM, f32, R, C],
    narrow: Scratch[VMEM, bf16, R, C],
    done: Scratch[DMA],
    several: Scratch[DMA, L[2]],
    ready: Scratch[REGULAR],
) -> None:
    tpu.sync_copy(x, whole)
    tpu.make_async_copy(x, whole, several.at[0])
    tpu.sync_copy(whole, x)  # E: store-to-input
    tpu.sync_copy(x, narrow)  # E: dtype-mismatch
    tpu.make_async_copy(x, narrow, done).wait()
    tpu.make_async_copy(x, narrow, done).start()  # E: dtype-mismatch
    tpu.sync_copy(done, whole)  # E: semaphore-as-data
    tpu.make_async_copy(x, whole, ready)  # E: semaphore-as-data
    tpu.async_copy(x, whole, several)  # E: semaphore-as-data
    tpu.semaphore_wait(ready)
    tpu.semaphore_wait(done)  # E: semaphore-as-data
    tpu.semaphore_signal(done)  # E: semaphore-as-data
    tpu.semaphore_read(done)
