"""Kernels whose stores and waits are hard to see for a reader of one function: none is an error."""

import functools
from typing import Literal as L

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from typedpallas import In, InOut, Out, Scratch, f32
from typedpallas.tpu import DMA, HBM, VMEM

OUT = jax.ShapeDtypeStruct((8, 128), jnp.float32)
WHOLE = pl.BlockSpec((8, 128), lambda i: (0, 0))
ONE = pl.BlockSpec((8, 128), lambda: (0, 0))
FAR = pl.BlockSpec(memory_space=pltpu.HBM)
BUFFER = pltpu.VMEM((8, 128), jnp.float32)


def add(acc: Scratch[VMEM, f32, L[8], L[128]], x: In[VMEM, f32, L[8], L[128]]) -> None:
    """A helper: its caller has set the sum."""
    acc[...] += x[...]


def clear(acc: Scratch[VMEM, f32, L[8], L[128]]) -> None:
    acc[...] = jnp.zeros_like(acc)


def by_helpers(
    x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]], acc: Scratch[VMEM, f32, L[8], L[128]]
) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        clear(acc)

    add(acc, x)
    o[...] = jnp.broadcast_to(acc[...], o.shape)


def aliased(x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None:
    """The output begins with the input's content."""
    o[...] += x[...] * 0.0


def in_place(x: InOut[VMEM, f32, L[8], L[128]]) -> None:
    x[...] += 1.0


def start(x: In[HBM, f32, L[8], L[128]], buffer: Scratch[VMEM, f32, L[8], L[128]], done: Scratch[DMA]) -> None:
    pltpu.make_async_copy(x, buffer, done).start()


def finish(x: In[HBM, f32, L[8], L[128]], buffer: Scratch[VMEM, f32, L[8], L[128]], done: Scratch[DMA]) -> None:
    pltpu.make_async_copy(x, buffer, done).wait()


def by_parts(
    x: In[HBM, f32, L[8], L[128]],
    o: Out[VMEM, f32, L[8], L[128]],
    buffer: Scratch[VMEM, f32, L[8], L[128]],
    done: Scratch[DMA],
) -> None:
    pltpu.make_async_copy(x, buffer, done).start()
    finish(x, buffer, done)
    o[...] = buffer[...]


def by_another_descriptor(
    x: In[HBM, f32, L[8], L[128]],
    o: Out[VMEM, f32, L[8], L[128]],
    buffer: Scratch[VMEM, f32, L[8], L[128]],
    done: Scratch[DMA],
) -> None:
    copy = pltpu.make_async_copy(x, buffer, done)
    copy.start()
    pltpu.make_async_copy(x, buffer, done).wait()
    o[...] = buffer[...]


def by_shape_only(
    x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]], acc: Scratch[VMEM, f32, L[8], L[128]]
) -> None:
    o[...] = x[...] + jnp.zeros_like(acc) + jnp.zeros(acc.shape, acc.dtype)


def dropped(
    x: In[VMEM, f32, L[8], L[128]],
    o: Out[VMEM, f32, L[8], L[128]],
    unused: Out[VMEM, f32, L[8], L[128]],
    count: Scratch[VMEM, f32, L[8], L[128]],
) -> None:
    """Nobody uses the second result, and nobody looks into the scratch."""
    o[...] = x[...]
    count[...] += 1.0


def run() -> None:
    x = np.arange(1024, dtype=np.float32).reshape(8, 128)
    call = functools.partial(pl.pallas_call, out_shape=OUT, grid=(1,), out_specs=WHOLE, interpret=True)
    copies = [BUFFER, pltpu.SemaphoreType.DMA]
    for kernel, spec, scratch in (
        (by_helpers, WHOLE, [BUFFER]),
        (by_parts, FAR, copies),
        (by_another_descriptor, FAR, copies),
        (by_shape_only, WHOLE, [BUFFER]),
    ):
        np.testing.assert_array_equal(call(kernel, in_specs=[spec], scratch_shapes=scratch)(x), x)
    first, _ = pl.pallas_call(
        dropped, [OUT, OUT], in_specs=[ONE], out_specs=[ONE, ONE], scratch_shapes=[BUFFER], interpret=True
    )(x)
    np.testing.assert_array_equal(first, x)
    given = pl.pallas_call(
        aliased,
        out_shape=OUT,
        grid=(1,),
        in_specs=[WHOLE],
        out_specs=WHOLE,
        input_output_aliases={0: 0},
        interpret=True,
    )(x)
    np.testing.assert_array_equal(given, x)
    pl.pallas_call(
        by_helpers, OUT, grid=(1,), in_specs=[WHOLE], out_specs=WHOLE, scratch_shapes=[BUFFER], interpret=True
    )(x)
    pl.pallas_call(
        by_parts, OUT, grid=(1,), in_specs=[FAR], out_specs=WHOLE, scratch_shapes=copies, interpret=True
    )(x)
    pl.pallas_call(
        by_another_descriptor, OUT, grid=(1,), in_specs=[FAR], out_specs=WHOLE, scratch_shapes=copies, interpret=True
    )(x)
    pl.pallas_call(
        by_shape_only, OUT, grid=(1,), in_specs=[WHOLE], out_specs=WHOLE, scratch_shapes=[BUFFER], interpret=True
    )(x)
