"""As many chunks of each sequence as its length says, two slots in turn; a bias only where one is asked for."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TARGETS = ("tpu-v5e", "tpu-v5p", "tpu-7x")
SEQUENCES, CHUNKS, ROWS, WIDTH = 4, 6, 8, 128
ARGS = (
    jax.ShapeDtypeStruct((SEQUENCES,), jnp.int32),
    jax.ShapeDtypeStruct((SEQUENCES,), jnp.int32),
    jax.ShapeDtypeStruct((SEQUENCES, CHUNKS * ROWS, WIDTH), jnp.float32),
    jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32),
)


def kernel(lengths, biased, x_hbm, bias_hbm, out, slots, bias, arrived, bias_arrived):
    sequence = pl.program_id(0)
    chunks = pl.cdiv(lengths[sequence], ROWS)

    def fetch(chunk):
        slot, rows = chunk % 2, pl.ds(chunk * ROWS, ROWS)
        return pltpu.make_async_copy(x_hbm.at[sequence, rows], slots.at[slot], arrived.at[slot])

    bias_copy = pltpu.make_async_copy(bias_hbm, bias, bias_arrived)

    @pl.when(biased[sequence] != 0)
    def _():
        bias_copy.start()

    @pl.when(chunks > 0)
    def _():
        fetch(0).start()

    out[...] = jnp.zeros_like(out)

    def turn(chunk, _):
        @pl.when(chunk + 1 < chunks)
        def _():
            fetch(chunk + 1).start()

        fetch(chunk).wait()
        place = chunk * ROWS + jax.lax.broadcasted_iota(jnp.int32, (ROWS, WIDTH), 0)
        out[...] += jnp.where(place < lengths[sequence], slots[chunk % 2], 0.0)

    jax.lax.fori_loop(0, chunks, turn, None)

    @pl.when(biased[sequence] != 0)
    def _():
        bias_copy.wait()
        out[...] += bias[...]


def run(lengths, biased, x, bias, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((SEQUENCES, ROWS, WIDTH), jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(SEQUENCES,),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec((None, ROWS, WIDTH), lambda i, lengths, biased: (i, 0, 0)),
            scratch_shapes=[
                pltpu.VMEM((2, ROWS, WIDTH), jnp.float32),
                pltpu.VMEM((ROWS, WIDTH), jnp.float32),
                pltpu.SemaphoreType.DMA((2,)),
                pltpu.SemaphoreType.DMA,
            ],
        ),
        interpret=interpret,
    )(lengths, biased, x, bias)


def inputs(rng):
    x = rng.standard_normal((SEQUENCES, CHUNKS * ROWS, WIDTH))
    bias = rng.standard_normal((ROWS, WIDTH))
    lengths, biased = np.array([20, 0, 8, 48], np.int32), np.array([1, 0, 0, 1], np.int32)
    return lengths, biased, x.astype(np.float32), bias.astype(np.float32)


def reference(lengths, biased, x, bias):
    rows = np.arange(CHUNKS * ROWS)[None, :, None]
    kept = np.where(rows < np.asarray(lengths)[:, None, None], np.asarray(x), 0.0)
    sums = kept.reshape(SEQUENCES, CHUNKS, ROWS, WIDTH).sum(axis=1)
    return sums + np.where(np.asarray(biased)[:, None, None] != 0, np.asarray(bias), 0.0)
