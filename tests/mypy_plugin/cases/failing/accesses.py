"""Loads and stores that the space, the direction, the shape or the element type forbid."""

from typing import Any
from typing import Literal as L

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from typedpallas import Dim, In, InOut, Out, Ref, Scratch, bf16, f32, i32
from typedpallas.tpu import ANY, HBM, SMEM, VMEM


def spaces[R: Dim, N: Dim](
    h: Ref[HBM, f32, R, N],
    a: Ref[ANY, f32, R, N],
    s: Ref[SMEM, f32, L[4]],
    v: Scratch[VMEM, f32, R, N],
) -> None:
    h[0, :]  # E: load-from-hbm
    h[...] = v[...]  # E: load-from-hbm
    a.get()  # E: load-from-hbm
    h.at[pl.ds(0, 8), :].set(v[pl.ds(0, 8), :])  # E: load-from-hbm
    s[...]  # E: vector-load-from-smem
    s[0:2] = jnp.zeros((2,), jnp.float32)  # E: vector-store-to-smem
    s[0] = 1.0
    v[0, 0] = 1.0  # E: scalar-store-to-vmem
    v[0, 0] = s[0]  # E: scalar-store-to-vmem


def directions[R: Dim, N: Dim](x: In[VMEM, f32, R, N], o: Out[VMEM, f32, R, N], io: InOut[VMEM, f32, R, N]) -> None:
    x[0, :] = o[0, :]  # E: store-to-input
    x.at[pl.ds(0, 8)][...] = io[pl.ds(0, 8), :]  # E: store-to-input
    io[...] = o[...]


def shapes[R: Dim, N: Dim](x: In[VMEM, f32, R, N], o: Out[VMEM, f32, R, N], w: In[VMEM, f32, L[8], L[128]]) -> None:
    o[...] = x[...].T  # E: shape-mismatch
    o[...] = 0.0  # E: shape-mismatch
    o[0, :] = x[:, 0]  # E: shape-mismatch
    o[...] += x[0, :] + x[:, 0]  # E: shape-mismatch
    o[...] = w[...]  # E: shape-mismatch
    o[pl.ds(0, 8), :] = x[pl.ds(0, 16), :]  # E: shape-mismatch
    x[0, 0, 0]  # E: shape-mismatch
    w[:, 0:64] + w[:, 0:32]  # E: shape-mismatch
    w[...].reshape(4, 128)  # E: shape-mismatch
    w[...].astype(jnp.bfloat16).sum(axis=2)  # E: shape-mismatch
    jnp.concatenate([w[...], w[:, 0:64]], axis=0)  # E: shape-mismatch
    o[...] = lax.fori_loop(0, 4, lambda i, acc: acc.T, x[...])  # E: shape-mismatch


def dtypes[R: Dim, N: Dim](x: In[VMEM, f32, R, N], o: Out[VMEM, bf16, R, N], n: Out[VMEM, i32, R, N]) -> None:
    o[...] = x[...]  # E: dtype-mismatch
    o[...] = x[...].astype(jnp.bfloat16) * x[...]  # E: dtype-mismatch
    n[...] = x[...]  # E: dtype-mismatch
    lax.dot_general(x[...], o[...].T.astype(jnp.int32), (((1,), (0,)), ((), ())))
    lax.add(x[...], n[...])  # E: dtype-mismatch
    o[...] = x[...]  # type: ignore[dtype-mismatch]


def inside[R: Dim, N: Dim](x: In[VMEM, f32, R, N], o: Out[VMEM, f32, R, N]) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _():
        o[...] = x[...].T  # E: shape-mismatch

    @pl.loop(0, 4)
    def _(i):
        o[...] = x[...].T  # E: shape-mismatch

    def body(i, acc):
        return acc + x[...].T  # E: shape-mismatch

    o[...] = lax.fori_loop(0, 10, body, x[...])
    for i in range(3):
        o[i, :] = x[i, :] + x[:, i]  # E: shape-mismatch
    if x.shape[0] > 4:
        y = x[...]
    else:
        y = x[...].T
    o[...] = y


def numbers(s: Ref[SMEM, f32, L[4]], n: Ref[SMEM, i32, L[4]]) -> None:
    s[0] = 1  # E: dtype-mismatch
    n[0] = 1.0  # E: dtype-mismatch
    n[0] = 1
    s[0] = 1.0


def bounds(x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]], k: Any) -> None:
    o[pl.ds(0, 4), :] = x[pl.ds(6, 4), :]  # E: expected elements from 0 to 7, found 6 to 9 (4 elements from 6)
    o[...] = x[...] + x[8, :]  # E: expected an index from 0 to 7, found 8
    o[...] = x[:, pl.ds(64, 128)]  # E: index-out-of-bounds
    x.at[:, pl.ds(64, 128)]
    o[pl.ds(4, 4), :] = x[pl.ds(4, size=4), :] * 2.0
    o[...] = x[0:16, :] + x[-1, :] + x[k, :] + x[pl.ds(k, 8), pl.ds(0, 128)]
    o[pl.ds(0, 4), :] = x[pl.ds(0, 4, stride=2), :]
    rows = pl.ds(5, 4)
    o[rows, :] = x[pl.ds(0, 4), :]  # E: index-out-of-bounds


def unclear(sem: Scratch[NoSuchSpace, L[2]], x: In[VMEM, f32, L[8], L[128]]) -> None:  # E: name-defined
    sem.at[1]
    x[...]
