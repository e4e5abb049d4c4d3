"""A matrix product whose rows come by copies into two slots by turns and whose results leave by copies too."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TARGETS = ("tpu-v5p", "tpu-v5e", "tpu-7x")
CHUNKS, BM, K, N = 6, 32, 128, 256
ARGS = (jax.ShapeDtypeStruct((CHUNKS * BM, K), jnp.float32), jax.ShapeDtypeStruct((K, N), jnp.float32))


def kernel(x_hbm, y_ref, out_hbm, x_buffer, out_buffer, arrived, left):
    def fetch(chunk, slot):
        rows = pl.ds(chunk * BM, BM)
        return pltpu.make_async_copy(x_hbm.at[rows], x_buffer.at[slot], arrived.at[slot])

    def store(chunk, slot):
        rows = pl.ds(chunk * BM, BM)
        return pltpu.make_async_copy(out_buffer.at[slot], out_hbm.at[rows], left.at[slot])

    fetch(0, 0).start()

    @pl.loop(0, CHUNKS)
    def _(chunk):
        slot = chunk % 2

        @pl.when(chunk + 1 < CHUNKS)
        def _():
            fetch(chunk + 1, 1 - slot).start()

        fetch(chunk, slot).wait()

        @pl.when(chunk >= 2)
        def _():
            store(chunk - 2, slot).wait()

        out_buffer[slot] = jnp.dot(x_buffer[slot], y_ref[...], preferred_element_type=jnp.float32)
        store(chunk, slot).start()

    store(CHUNKS - 2, CHUNKS % 2).wait()
    store(CHUNKS - 1, 1 - CHUNKS % 2).wait()


def run(x, y, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((CHUNKS * BM, N), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[
            pltpu.VMEM((2, BM, K), jnp.float32),
            pltpu.VMEM((2, BM, N), jnp.float32),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.SemaphoreType.DMA((2,)),
        ],
        interpret=interpret,
    )(x, y)


def reference(x, y):
    return x @ y
