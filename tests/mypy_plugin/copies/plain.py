"""Kernels without annotations: their semaphores are those that the call makes."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def right(x, o, buffer, done):
    copy = pltpu.make_async_copy(x, buffer, done)
    copy.start()
    copy.wait()
    o[...] = buffer[...]


def early(x, o, buffer, done):
    copy = pltpu.make_async_copy(x, buffer, done)
    copy.start()
    o[...] = buffer[...]  # E: read-before-wait
    copy.wait()


def twice(x, o, buffer, done):
    copy = pltpu.make_async_copy(x, buffer, done)
    copy.start()
    copy.wait()
    copy.wait()  # E: copy-waited-twice
    o[...] = buffer[...]


def never(x, o, buffer, done, *, factor: float = 1.0):
    pltpu.make_async_copy(x, buffer, done).start()  # E: copy-not-waited
    o[...] = jnp.full_like(o, factor)


def by_whoever_calls(x, o, buffer, done):
    """No kernel that is called here: somebody else may wait."""
    pltpu.make_async_copy(x, buffer, done).start()


OUT = jax.ShapeDtypeStruct((8, 128), jnp.float32)
FAR = [pl.BlockSpec(memory_space=pl.ANY)]
SCRATCH = [pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA]


def results(x: jax.Array) -> list[Any]:
    return [
        pl.pallas_call(right, OUT, in_specs=FAR, scratch_shapes=SCRATCH)(x[:8]),
        pl.pallas_call(early, OUT, in_specs=FAR, scratch_shapes=SCRATCH)(x[:8]),
        pl.pallas_call(twice, out_shape=OUT, in_specs=FAR, scratch_shapes=SCRATCH)(x[:8]),
        pl.pallas_call(
            functools.partial(never, factor=2.0),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=0, grid=(1,), in_specs=FAR, scratch_shapes=SCRATCH
            ),
            out_shape=OUT,
        )(x[:8]),
    ]
