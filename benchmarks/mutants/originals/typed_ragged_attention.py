"""Attention of a batch that mixes prefill and decoding over pages, typed: a step a sequence in a tile of queries."""

import functools
import math
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import Dim, In, Out, Scratch, f32, i32, tpu
from typedpallas.tpu import DMA, HBM, SMEM, VMEM

TARGETS = ("tpu-v5e", "tpu-v4", "tpu-7x")
HEADS, TOKENS, TILE, DEPTH = 2, 32, 16, 128
PAGES, PAGE, PER_SLOT = 14, 16, 2
LENGTHS = (90, 20, 0, 40)
"""Keys of each sequence; the last of them are its queries'."""
BEGINS = (0, 11, 12, 12, 31)
PLACES = ((3, 8, 1, 10, 5, 13), (7, 2, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0), (4, 12, 9, 0, 0, 0))
STEPS = ((0, 0), (0, 1), (0, 3), (1, 3))
"""Tiles and sequences that share tokens."""
ARGS = (
    jax.ShapeDtypeStruct((HEADS, TOKENS, DEPTH), jnp.float32),
    jax.ShapeDtypeStruct((HEADS, PAGES, PAGE, DEPTH), jnp.float32),
    jax.ShapeDtypeStruct((HEADS, PAGES, PAGE, DEPTH), jnp.float32),
)
BY_ROWS = (((1,), (1,)), ((), ()))


def kernel[W: Dim, S: Dim, B: Dim, N: Dim, H: Dim, P: Dim, PG: Dim, R: Dim, D: Dim, K: Dim](
    tiles: In[SMEM, i32, W],
    sequences: In[SMEM, i32, W],
    begins: In[SMEM, i32, B],
    lengths: In[SMEM, i32, S],
    places: In[SMEM, i32, S, N],
    q: In[VMEM, f32, R, D],
    k: In[HBM, f32, H, P, PG, D],
    v: In[HBM, f32, H, P, PG, D],
    out: Out[VMEM, f32, R, D],
    k_slots: Scratch[VMEM, f32, L[2], K, D],
    v_slots: Scratch[VMEM, f32, L[2], K, D],
    arrived: Scratch[DMA, L[2], L[2]],
) -> None:
    head, step = pl.program_id(0), pl.program_id(1)
    sequence, tile = sequences[step], tiles[step]
    length, keys = lengths[sequence], k_slots.shape[1]
    first, last = (begins[sequence + n] - tile * TILE for n in (0, 1))
    position = length - last
    end = lax.div(position + jnp.minimum(last, TILE) + keys - 1, keys)

    def copies(turn, slot):
        for n in range(PER_SLOT):
            place = jnp.minimum(turn * PER_SLOT + n, lax.div(length - 1, PAGE))
            page, rows = places[sequence, place], pl.ds(n * PAGE, PAGE)
            yield tpu.make_async_copy(k.at[head, page], k_slots.at[slot, rows], arrived.at[0, slot])
            yield tpu.make_async_copy(v.at[head, page], v_slots.at[slot, rows], arrived.at[1, slot])

    def start(turn):
        for copy in copies(turn, lax.rem(turn, 2)):
            copy.start()

    def one(turn, state):
        highest, total, mean = state
        slot = lax.rem(turn, 2)
        pl.when(turn + 1 < end)(functools.partial(start, turn + 1))
        for copy in copies(turn, slot):
            copy.wait()
        scores = lax.dot_general(q[...], k_slots[slot], BY_ROWS, preferred_element_type=jnp.float32)
        row, key = (lax.broadcasted_iota(jnp.int32, scores.shape, axis) for axis in (0, 1))
        scores = jnp.where(turn * keys + key <= position + row, scores * (DEPTH**-0.5 * math.log2(math.e)), -1e30)
        now = jnp.maximum(highest, scores.max(axis=1, keepdims=True))
        shrink, weights = jnp.exp2(highest - now), jnp.exp2(scores - now)
        added = jnp.dot(weights, v_slots[slot], preferred_element_type=jnp.float32)
        return now, total * shrink + weights.sum(axis=1, keepdims=True), mean * shrink + added

    start(0)
    column = jnp.zeros((TILE, 1), jnp.float32)
    _, total, mean = lax.fori_loop(0, end, one, (column - 1e30, column, jnp.zeros(q.shape, jnp.float32)))
    row = lax.broadcasted_iota(jnp.int32, q.shape, 0)
    new = (step == 0) | (tiles[jnp.maximum(step - 1, 0)] != tile)
    before = jnp.where(new, 0, out[...])
    out[...] = jnp.where((row >= first) & (row < last), mean / total, before)


def run(q, k, v, interpret=False):
    own = pl.BlockSpec((None, TILE, DEPTH), lambda h, s, tiles, *_: (h, tiles[s], 0))
    whole = pl.BlockSpec(memory_space=pltpu.HBM)
    slots = pltpu.VMEM((2, PER_SLOT * PAGE, DEPTH), jnp.float32)
    tables = (*zip(*STEPS, strict=True), BEGINS, LENGTHS, PLACES)
    return tp.pallas_call(
        kernel,
        ARGS[0],
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=5,
            grid=(HEADS, len(STEPS)),
            in_specs=[own, whole, whole],
            out_specs=own,
            scratch_shapes=[slots, slots, pltpu.SemaphoreType.DMA((2, 2))],
        ),
        interpret=interpret,
    )(*(jnp.asarray(table, jnp.int32) for table in tables), q, k, v)


def reference(q, k, v):
    out = jnp.zeros(q.shape, jnp.float32)
    for sequence, (places, length) in enumerate(zip(PLACES, LENGTHS, strict=True)):
        begin, end = BEGINS[sequence], BEGINS[sequence + 1]
        keys, values = (x[:, jnp.asarray(places)].reshape(HEADS, -1, DEPTH)[:, :length] for x in (k, v))
        scores = jnp.einsum("htd,hkd->htk", q[:, begin:end], keys) * DEPTH**-0.5
        seen = jnp.arange(length) <= length - end + jnp.arange(begin, end)[:, None]
        weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
        out = out.at[:, begin:end].set(jnp.einsum("htk,hkd->htd", weights, values))
    return out
