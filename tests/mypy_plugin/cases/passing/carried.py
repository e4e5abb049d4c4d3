"""Refs carried in a named tuple and a dataclass, and a helper that gives back a function of their dims."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal as L
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from typedpallas import Block, Dim, In, Multiple, Out, Scratch, f32
from typedpallas.tpu import VMEM


class Pair[M: Dim, N: Dim](NamedTuple):
    x: In[VMEM, f32, M, N]
    o: Out[VMEM, f32, M, N]


def multiply[M: Dim, N: Dim](pair: Pair[M, N], by: float) -> None:
    pair.o[...] = pair.x[...] * by


def pair_kernel[M: Dim, N: Dim](x: In[VMEM, f32, M, N], o: Out[VMEM, f32, M, N]) -> None:
    multiply(Pair(x, o), 2.0)


def adding[M: Dim, N: Dim](offset: Block[f32, M, N]) -> Callable[[Block[f32, M, N]], Block[f32, M, N]]:
    return lambda block: block + offset


def function_kernel[R: Dim, C: Dim](x: In[VMEM, f32, R, C], o: Out[VMEM, f32, R, C]) -> None:
    o[...] = adding(x[...])(x[...])


@dataclass
class State[M: Dim, N: Dim]:
    total: Scratch[VMEM, f32, M, N]
    top: Scratch[VMEM, f32, M, L[1]]

    def start(self) -> None:
        self.total[...] = jnp.zeros_like(self.total)
        self.top[...] = jnp.full(self.top.shape, -jnp.inf, jnp.float32)

    def take(self, block: Block[f32, M, N]) -> None:
        self.total[...] += block
        self.top[...] = jnp.maximum(self.top[...], jnp.max(block, axis=1, keepdims=True))


def state_kernel[M: Multiple[L[8]], N: Multiple[L[128]]](
    x: In[VMEM, f32, M, N],
    o: Out[VMEM, f32, M, N],
    best: Out[VMEM, f32, M, L[1]],
    total: Scratch[VMEM, f32, M, N],
    top: Scratch[VMEM, f32, M, L[1]],
) -> None:
    state = State(total, top)

    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        state.start()

    state.take(x[...])

    @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
    def _() -> None:
        o[...] = state.total[...]
        best[...] = state.top[...]


def run() -> None:
    x = jax.random.normal(jax.random.key(0), (32, 128), jnp.float32)
    for kernel in (pair_kernel, function_kernel):
        got = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x)
        np.testing.assert_allclose(got, 2.0 * x, rtol=1e-6)
    total, top = pl.pallas_call(
        state_kernel,
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=[pl.BlockSpec((8, 128), lambda i: (0, 0)), pl.BlockSpec((8, 1), lambda i: (0, 0))],
        out_shape=[jax.ShapeDtypeStruct((8, 128), jnp.float32), jax.ShapeDtypeStruct((8, 1), jnp.float32)],
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.VMEM((8, 1), jnp.float32)],
        interpret=True,
    )(x)
    np.testing.assert_allclose(total, x.reshape(4, 8, 128).sum(axis=0), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(top[:, 0], x.reshape(4, 8, 128).max(axis=(0, 2)))
