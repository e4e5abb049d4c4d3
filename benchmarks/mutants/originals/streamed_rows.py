"""Rows streamed through three slots: copies in run two chunks ahead, copies out are drained after the loop."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TARGETS = ("tpu-v5e", "tpu-v5p", "tpu-7x")
CHUNKS, ROWS, WIDTH, SLOTS = 100, 8, 128, 3
ARGS = (jax.ShapeDtypeStruct((CHUNKS * ROWS, WIDTH), jnp.float32),)


def kernel(x_hbm, out_hbm, came, went, arrived, left):
    def fetch(chunk):
        slot, rows = chunk % SLOTS, pl.ds(chunk * ROWS, ROWS)
        return pltpu.make_async_copy(x_hbm.at[rows], came.at[slot], arrived.at[slot])

    def store(chunk):
        slot, rows = chunk % SLOTS, pl.ds(chunk * ROWS, ROWS)
        return pltpu.make_async_copy(went.at[slot], out_hbm.at[rows], left.at[slot])

    for chunk in range(SLOTS - 1):
        fetch(chunk).start()

    def turn(chunk, _):
        @pl.when(chunk + SLOTS - 1 < CHUNKS)
        def _():
            fetch(chunk + SLOTS - 1).start()

        fetch(chunk).wait()

        @pl.when(chunk >= SLOTS)
        def _():
            store(chunk - SLOTS).wait()

        slot = chunk % SLOTS
        went[slot] = came[slot] * came[slot]
        store(chunk).start()

    jax.lax.fori_loop(0, CHUNKS, turn, None)
    for chunk in range(CHUNKS - SLOTS, CHUNKS):
        store(chunk).wait()


def run(x, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=ARGS[0],
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[
            pltpu.VMEM((SLOTS, ROWS, WIDTH), jnp.float32),
            pltpu.VMEM((SLOTS, ROWS, WIDTH), jnp.float32),
            pltpu.SemaphoreType.DMA((SLOTS,)),
            pltpu.SemaphoreType.DMA((SLOTS,)),
        ],
        interpret=interpret,
    )(x)


def reference(x):
    return x * x
