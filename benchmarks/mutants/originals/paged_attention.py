"""Decode attention over pages: a table in scalar memory names each sequence's pages, copied in two slots by turns."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TARGETS = ("tpu-v5p", "tpu-v5e", "tpu-7x")
SEQUENCES, HEADS, DEPTH = 4, 8, 128
PAGES, PAGE, PER_SEQUENCE = 16, 16, 4
ARGS = (
    jax.ShapeDtypeStruct((SEQUENCES, PER_SEQUENCE), jnp.int32),
    jax.ShapeDtypeStruct((SEQUENCES, HEADS, DEPTH), jnp.float32),
    jax.ShapeDtypeStruct((PAGES, PAGE, DEPTH), jnp.float32),
    jax.ShapeDtypeStruct((PAGES, PAGE, DEPTH), jnp.float32),
)
ROWS = (((1,), (1,)), ((), ()))


def kernel(table_ref, q_ref, k_hbm, v_hbm, out_ref, k_buffer, v_buffer, arrived):
    sequence = pl.program_id(0)

    def copies(page, slot):
        at = table_ref[sequence, page]
        return (
            pltpu.make_async_copy(k_hbm.at[at], k_buffer.at[slot], arrived.at[0, slot]),
            pltpu.make_async_copy(v_hbm.at[at], v_buffer.at[slot], arrived.at[1, slot]),
        )

    for copy in copies(0, 0):
        copy.start()
    highest = jnp.full((HEADS, 1), -1e30, jnp.float32)
    total = jnp.zeros((HEADS, 1), jnp.float32)
    mean = jnp.zeros((HEADS, DEPTH), jnp.float32)
    for page in range(PER_SEQUENCE):
        slot = page % 2
        if page + 1 < PER_SEQUENCE:
            for copy in copies(page + 1, 1 - slot):
                copy.start()
        for copy in copies(page, slot):
            copy.wait()
        scores = jax.lax.dot_general(q_ref[...], k_buffer[slot], ROWS, preferred_element_type=jnp.float32)
        now = jnp.maximum(highest, scores.max(axis=1, keepdims=True))
        shrink, weights = jnp.exp(highest - now), jnp.exp(scores - now)
        total = total * shrink + weights.sum(axis=1, keepdims=True)
        mean = mean * shrink + jnp.dot(weights, v_buffer[slot], preferred_element_type=jnp.float32)
        highest = now
    out_ref[...] = mean / total


def run(table, q, k, v, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((SEQUENCES, HEADS, DEPTH), jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(SEQUENCES,),
            in_specs=[
                pl.BlockSpec((None, HEADS, DEPTH), lambda i, table: (i, 0, 0)),
                pl.BlockSpec(memory_space=pl.ANY),
                pl.BlockSpec(memory_space=pl.ANY),
            ],
            out_specs=pl.BlockSpec((None, HEADS, DEPTH), lambda sequence, table: (sequence, 0, 0)),
            scratch_shapes=[
                pltpu.VMEM((2, PAGE, DEPTH), jnp.float32),
                pltpu.VMEM((2, PAGE, DEPTH), jnp.float32),
                pltpu.SemaphoreType.DMA((2, 2)),
            ],
        ),
        interpret=interpret,
    )(table, q, k, v)


def inputs(rng):
    table = rng.permutation(PAGES).reshape(SEQUENCES, PER_SEQUENCE)
    arrays = [rng.normal(size=a.shape) for a in ARGS[1:]]
    return [jnp.asarray(table, jnp.int32), *(jnp.asarray(a, jnp.float32) for a in arrays)]


def reference(table, q, k, v):
    keys, values = (x[table].reshape(SEQUENCES, -1, DEPTH) for x in (k, v))
    weights = jax.nn.softmax(jnp.einsum("shd,skd->shk", q, keys), axis=-1)
    return jnp.einsum("shk,skd->shd", weights, values)
