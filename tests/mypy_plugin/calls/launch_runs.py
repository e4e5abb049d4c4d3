"""Launches and Pallas calls that are right: mypy says nothing of them, and they run."""
# ruff: noqa: E501

import functools
from typing import Literal as L
from typing import reveal_type

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import Array, In, Mul, Multiple, Out, Scratch, f32
from typedpallas.tpu import VMEM


def matmul_kernel[BM: Multiple[L[8]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[VMEM, f32, BM, BK],
    y: In[VMEM, f32, BK, BN],
    o: Out[VMEM, f32, BM, BN],
    acc: Scratch[VMEM, f32, BM, BN],
) -> None:
    @pl.when(pl.program_id(2) == 0)
    def _() -> None:
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _() -> None:
        o[...] = acc[...]


def scale_kernel[R: tp.Dim, N: tp.Dim](
    x: In[tp.BLOCK, f32, R, N], o: Out[tp.BLOCK, f32, R, N], s: Out[tp.BLOCK, f32, R, N], *, by: float
) -> None:
    o[...] = x[...] * by
    s[...] = x[...] + by


def halve[R: tp.Dim](x: In[VMEM, f32, Mul[L[2], R], L[128]], o: Out[VMEM, f32, R, L[128]]) -> None:
    o[...] = x[:8, :]


matmul = tp.launch(matmul_kernel, "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", grid="i j k")
tuned = matmul.bind(BK=128)
scale = tp.launch(functools.partial(scale_kernel, by=2.0), "b (i R) N -> b (i R) N, b (i R) N", grid="b i")


def launched(x: Array[f32, L[16], L[256]], y: Array[f32, L[256], L[128]]) -> None:
    z = tuned(x, y, BM=8, BN=128)
    reveal_type(z)  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, Literal[16], Literal[128]]"
    assert z.shape == (16, 128)
    assert jnp.allclose(z, x @ y, atol=1e-4)


def scaled(x: Array[f32, L[2], L[16], L[128]]) -> None:
    twice, more = scale(x, R=8)
    reveal_type(twice)  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, Literal[2], Literal[16], Literal[128]]"
    assert twice.shape == more.shape == (2, 16, 128)
    assert jnp.allclose(twice, x * 2) and jnp.allclose(more, x + 2)


def called(x: jax.Array, y: jax.Array) -> None:
    bm, bn = 8, 128
    bk = bn
    in_specs = [pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))]
    run = pl.pallas_call(
        matmul_kernel,
        grid=(2, 1, 2),
        in_specs=in_specs,
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        interpret=True,
    )
    assert jnp.allclose(run(x, y), x @ y, atol=1e-4)


def halved(x: jax.Array) -> None:
    rows = 8

    @functools.partial(
        tp.pallas_call,
        grid=(2,),
        in_specs=[pl.BlockSpec((2 * rows, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((rows, 128), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32),
        interpret=True,
    )
    def run(x: In[VMEM, f32, L[16], L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None:
        o[...] = x[:8, :]

    assert run(x).shape == (16, 128)


def run() -> None:
    """Run everything above."""
    x = jax.random.normal(jax.random.key(0), (16, 256))
    y = jax.random.normal(jax.random.key(1), (256, 128))
    launched(x, y)
    scaled(jax.random.normal(jax.random.key(2), (2, 16, 128)))
    called(x, y)
    halved(jax.random.normal(jax.random.key(3), (32, 128)))
