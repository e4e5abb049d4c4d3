"""Slices that cut tiles whatever the kernel's dims are; the trace and the compiler refuse each, too."""

from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import Dim, In, Multiple, Out, Scratch, bf16, f32, i32
from typedpallas.tpu import HBM, SMEM, VMEM

WIDE = jax.ShapeDtypeStruct((64, 256), jnp.float32)
HALF = jax.ShapeDtypeStruct((64, 256), jnp.bfloat16)
NUMBERS = jax.ShapeDtypeStruct((4,), jnp.int32)


def steps[M: Dim](x: In[VMEM, f32, M, L[256]], o: Out[VMEM, f32, L[16], L[256]]) -> None:
    o[...] = x[pl.ds(pl.program_id(0) * 4, 16), :]  # E: start that is a multiple of 8


def shifted[BM: Multiple[L[8]], M: Dim, N: Multiple[L[256]]](
    x: In[VMEM, f32, M, N], o: Out[VMEM, f32, BM, N]
) -> None:
    rows = o.shape[0]
    o[...] = x[pl.ds(pl.program_id(0) * rows + 4, rows), :]  # E: unaligned-slice


def some_rows(x: In[VMEM, bf16, L[64], L[128]], o: Out[VMEM, bf16, L[16], L[128]]) -> None:
    at = pl.program_id(0) * 4
    o[...] = x[pl.ds(at, 16), :]  # E: a start that is only known to be a multiple of 4


def row_by_row(x: In[VMEM, bf16, L[64], L[256]], o: Out[VMEM, bf16, L[16], L[256]]) -> None:
    o[...] = jnp.zeros_like(o)

    @pl.loop(0, 16)
    def _(k: Any) -> None:
        o[...] += x[k, :][None, :]  # E: unaligned-slice


def lanes(x: In[VMEM, f32, L[16], L[512]], o: Out[VMEM, f32, L[16], L[128]]) -> None:
    o[...] = lax.fori_loop(
        0,
        4,
        lambda k, total: total + x[:, pl.ds(k * 64, 128)],  # E: start that is a multiple of 128
        jnp.zeros_like(o),
    )


def data(s: In[SMEM, i32, L[4]], x: In[VMEM, f32, L[64], L[256]], o: Out[VMEM, f32, L[16], L[256]]) -> None:
    @pl.when(s[1] > 0)
    def _() -> None:
        o[...] = x[pl.ds(s[0], 16), :]  # E: a start that may be any number


def copied[N: Multiple[L[256]]](
    x: In[HBM, bf16, L[64], N], o: Out[VMEM, bf16, L[16], N], buffer: Scratch[VMEM, bf16, L[16], N]
) -> None:
    def turn(k: Any, carry: None) -> None:
        pltpu.sync_copy(x.at[pl.ds(k * 4, 16), :], buffer)  # E: unaligned-slice

    lax.fori_loop(0, 4, turn, None)
    o[...] = buffer[...]


def into_scratch(
    x: In[VMEM, f32, L[4], L[256]], o: Out[VMEM, f32, L[16], L[256]], b: Scratch[VMEM, f32, L[16], L[256]]
) -> None:
    b[...] = jnp.zeros_like(b)
    for k in range(2):
        b[pl.ds(pl.program_id(0) * 4 + k * 2, 4), :] = x[...]  # E: unaligned-slice
    o[...] = b[...]


LAUNCHES = {
    "steps": (tp.launch(steps, "M 256 -> (i 16) 256", grid="i", dims={"i": 4}), (WIDE,), {}),
    "shifted": (tp.launch(shifted, "M N -> (i BM) N", grid="i", dims={"i": 2}), (WIDE,), {"BM": 16}),
    "some rows": (
        tp.launch(some_rows, "64 128 -> (i 16) 128", grid="i", dims={"i": 4}),
        (jax.ShapeDtypeStruct((64, 128), jnp.bfloat16),),
        {},
    ),
    "row by row": (tp.launch(row_by_row, "64 256 -> (i 16) 256", grid="i", dims={"i": 4}), (HALF,), {}),
    "lanes": (
        tp.launch(lanes, "16 512 -> (i 16) 128", grid="i", dims={"i": 1}),
        (jax.ShapeDtypeStruct((16, 512), jnp.float32),),
        {},
    ),
    "data": (tp.launch(data, "4, 64 256 -> (i 16) 256", grid="i", dims={"i": 4}), (NUMBERS, WIDE), {}),
    "copied": (tp.launch(copied, "64 N -> (i 16) N", grid="i", dims={"i": 1}), (HALF,), {}),
    "into scratch": (
        tp.launch(into_scratch, "4 256 -> (i 16) 256", grid="i", dims={"i": 2}),
        (jax.ShapeDtypeStruct((4, 256), jnp.float32),),
        {},
    ),
}


def plain(x: tp.Array[f32, L[64], L[256]]) -> jax.Array:
    """Nobody promises what Mosaic does not see of a plain call."""

    def kernel(x: In[VMEM, f32, L[64], L[256]], o: Out[VMEM, f32, L[16], L[256]]) -> None:
        o[...] = x[pl.ds(jnp.maximum(pl.program_id(0) * 16, 0), 16), :]  # E: in a way that the compiler does not see

    found: jax.Array = pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((64, 256), jnp.float32),
        grid=(4,),
        in_specs=[pl.BlockSpec((64, 256), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((16, 256), lambda i: (i, 0)),
    )(x)
    return found
