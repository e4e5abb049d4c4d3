"""Slices that mypy has nothing against on any TPU of the two that are asked for; each is compiled there too."""

import functools
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
NARROW = jax.ShapeDtypeStruct((64, 128), jnp.float32)
NUMBERS = jax.ShapeDtypeStruct((4,), jnp.int32)


def product[BM: Multiple[L[8]], M: Dim, N: Dim](x: In[VMEM, f32, M, N], o: Out[VMEM, f32, BM, N]) -> None:
    rows = o.shape[0]
    o[...] = x[pl.ds(pl.program_id(0) * rows, rows), :]


def arithmetic[BM: Multiple[L[16]], M: Dim, N: Dim](x: In[VMEM, f32, M, N], o: Out[VMEM, f32, BM, N]) -> None:
    rows, i = o.shape[0], pl.program_id(0)
    half = rows // 2
    at = jnp.minimum(i // 2 * rows + half, 2 * rows) - half
    o[...] = x[pl.ds(at, rows), :] + x[pl.ds(jnp.where(i > 1, i * half, 0), rows), :]


def unseen[BM: Multiple[L[8]], M: Dim, N: Dim](x: In[VMEM, f32, M, N], o: Out[VMEM, f32, BM, N]) -> None:
    """The launch promises it."""
    rows = o.shape[0]
    o[...] = x[pl.ds(jnp.maximum(pl.program_id(0) * rows - rows, 0), rows), :]


def promised(s: In[SMEM, i32, L[4]], x: In[VMEM, f32, L[64], L[256]], o: Out[VMEM, f32, L[16], L[256]]) -> None:
    at = s[0]
    o[...] = x[pl.ds(pl.multiple_of(at, 8), 16), :] + x[pl.ds(s[1] * 8, 16), :]


def narrow(x: In[VMEM, f32, L[64], L[128]], o: Out[VMEM, f32, L[16], L[128]]) -> None:
    """Rows of 32-bit elements of at most 128 lanes may start anywhere."""
    o[...] = x[pl.ds(pl.program_id(0) * 3, 16), :]


def one_row(x: In[VMEM, f32, L[64], L[256]], o: Out[VMEM, f32, L[16], L[256]]) -> None:
    i = pl.program_id(0)
    o[...] = jnp.zeros_like(o)
    o[pl.ds(i, 1), :] = x[pl.ds(i, 1), :]
    o[i, :] = x[i, :] * 2


def outer(x: In[VMEM, f32, L[5], L[16], L[256]], o: Out[VMEM, f32, L[3], L[16], L[256]]) -> None:
    """The first dim is in no tile."""
    o[...] = x[pl.ds(pl.program_id(0), 3)]


def squeezed[M: Dim](x: In[VMEM, f32, M, L[256]], o: Out[VMEM, f32, L[5], L[256]]) -> None:
    """The block squeezes the dim between the two away, so the first one is in no tile."""
    o[...] = x[pl.ds(pl.program_id(0), 5), :]


def turns[BM: Multiple[L[16]], N: Dim](
    x: In[HBM, bf16, L[64], N], o: Out[VMEM, bf16, BM, N], buffer: Scratch[VMEM, bf16, BM, N]
) -> None:
    rows = o.shape[0]
    o[...] = jnp.zeros_like(o)

    @pl.loop(0, 2)
    def _(k: Any) -> None:
        pltpu.sync_copy(x.at[pl.ds(k * rows, rows), :], buffer)
        o[...] += buffer[...]

    def turn(k: Any, carry: None) -> None:
        pltpu.sync_copy(x.at[pl.ds((k + 1) * rows, rows), :], buffer)

    lax.fori_loop(0, 2, turn, None)


def lanes(x: In[VMEM, f32, L[16], L[512]], o: Out[VMEM, f32, L[16], L[128]]) -> None:
    o[...] = jnp.zeros_like(o)
    for k in range(4):
        o[...] += x[:, pl.ds(k * 100, 128)]
    o[...] += lax.fori_loop(0, 4, lambda k, total: total + x[:, pl.ds(k * 128, 128)], jnp.zeros_like(o))


def one_turn(x: In[VMEM, f32, L[64], L[256]], o: Out[VMEM, f32, L[16], L[256]]) -> None:
    """A loop of one turn is none, so its count is a constant."""

    @pl.loop(0, 1)
    def _(k: Any) -> None:
        o[...] = x[pl.ds(k + 3, 16), :]


def written_out(x: In[VMEM, f32, L[64], L[256]], o: Out[VMEM, f32, L[16], L[256]]) -> None:
    @pl.loop(0, 4, unroll=True)
    def _(k: Any) -> None:
        o[...] = x[pl.ds(k * 3, 16), :]


SHIFTED = False


def not_there(x: In[VMEM, f32, L[64], L[256]], o: Out[VMEM, f32, L[16], L[256]]) -> None:
    """What Python leaves out is not compiled."""
    i = pl.program_id(0)
    if SHIFTED:
        o[...] = x[pl.ds(i * 4, 16), :]
    else:
        o[...] = x[pl.ds(i * 16, 16), :]

    @pl.when(SHIFTED)
    def _() -> None:
        o[...] = x[pl.ds(i * 4, 16), :]


def left_out(x: In[VMEM, f32, L[64], L[256]], o: Out[VMEM, f32, L[16], L[256]], shifted: bool = False) -> None:
    """Nor is what a flag of the kernel's leaves out, in whatever way."""
    i = pl.program_id(0)
    _ = shifted and x[pl.ds(i * 4, 16), :]
    _ = [x[pl.ds(i * 4, 16), :] for _ in range(int(shifted))]
    o[...] = x[pl.ds(i * 4, 16), :] if shifted else x[pl.ds(i * 16, 16), :]
    if not shifted:
        return
    o[...] = x[pl.ds(i * 4, 16), :]


def renamed(x: In[VMEM, f32, L[2], L[64], L[256]], o: Out[VMEM, f32, L[16], L[256]]) -> None:
    """A name that is given another ref."""
    x = x.at[:, pl.ds(16, 16), :]
    o[...] = x[pl.program_id(0)]


LAUNCHES = {
    "product": (tp.launch(product, "M N -> (i BM) N", grid="i", dims={"i": 4}), (WIDE,), {"BM": 16}),
    "arithmetic": (tp.launch(arithmetic, "M N -> (i BM) N", grid="i", dims={"i": 4}), (WIDE,), {"BM": 16}),
    "unseen": (tp.launch(unseen, "M N -> (i BM) N", grid="i", dims={"i": 4}), (WIDE,), {"BM": 16}),
    "promised": (tp.launch(promised, "4, 64 256 -> (i 16) 256", grid="i", dims={"i": 4}), (NUMBERS, WIDE), {}),
    "narrow": (tp.launch(narrow, "64 128 -> (i 16) 128", grid="i", dims={"i": 4}), (NARROW,), {}),
    "one row": (tp.launch(one_row, "64 256 -> (i 16) 256", grid="i", dims={"i": 4}), (WIDE,), {}),
    "outer": (
        tp.launch(outer, "5 16 256 -> (i 3) 16 256", grid="i", dims={"i": 2}),
        (jax.ShapeDtypeStruct((5, 16, 256), jnp.float32),),
        {},
    ),
    "squeezed": (
        tp.launch(squeezed, "M i 256 -> (i 5) 256", grid="i", ragged="i"),
        (jax.ShapeDtypeStruct((6, 1, 256), jnp.float32),),
        {},
    ),
    "turns": (tp.launch(turns, "64 N -> (i BM) N", grid="i", dims={"i": 1}), (HALF,), {"BM": 16}),
    "lanes": (
        tp.launch(lanes, "16 512 -> (i 16) 128", grid="i", dims={"i": 1}),
        (jax.ShapeDtypeStruct((16, 512), jnp.float32),),
        {},
    ),
    "one turn": (tp.launch(one_turn, "64 256 -> (i 16) 256", grid="i", dims={"i": 4}), (WIDE,), {}),
    "written out": (tp.launch(written_out, "64 256 -> (i 16) 256", grid="i", dims={"i": 4}), (WIDE,), {}),
    "left out": (
        tp.launch(functools.partial(left_out, shifted=False), "64 256 -> (i 16) 256", grid="i", dims={"i": 4}),
        (WIDE,),
        {},
    ),
    "renamed": (
        tp.launch(renamed, "2 64 256 -> (i 16) 256", grid="i", dims={"i": 2}),
        (jax.ShapeDtypeStruct((2, 64, 256), jnp.float32),),
        {},
    ),
    "not there": (tp.launch(not_there, "64 256 -> (i 16) 256", grid="i", dims={"i": 4}), (WIDE,), {}),
}
