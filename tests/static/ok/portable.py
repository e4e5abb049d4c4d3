"""Portable spaces, element types as type parameters, computed dims, classic type variables.

A value's dims are arguments of an alias. pyright does not solve those from a plain array, and its strict mode says
so where such a call is returned; that one report is off here.
"""

# pyright: reportUnknownVariableType=false

from typing import Any, TypeVar
from typing import Literal as L

import jax
import jax.numpy as jnp

import typedpallas as tp
from typedpallas import Add, Array, Block, CDiv, Dim, Float, FloorDiv, In, Mul, Multiple, Out, Ref, Scratch, f32

T = TypeVar("T", bound=Float)
N = TypeVar("N", bound=Multiple[L[128]])


def classic(  # noqa: UP047
    x: In[tp.BLOCK, T, L[8], N], o: Out[tp.BLOCK, T, L[8], N]
) -> None:
    o[...] = x[...]


def relu[E: Float, BM: Dim, BN: Dim](x: In[tp.BLOCK, E, BM, BN], o: Out[tp.BLOCK, E, BM, BN]) -> None:
    o[...] = jnp.maximum(x[...] * 2.0 + 1.0, 0.0)


def sums[BM: Dim, BN: Dim](
    x: In[tp.BLOCK, f32, BM, BN],
    o: Out[tp.BLOCK, f32, BM],
    m: Scratch[tp.STATE, f32, BM],
    acc: Scratch[tp.ACC, f32, BM, BN],
) -> None:
    acc[...] = x[...]
    m[...] = acc[...].max(axis=1)
    o[...] = m[...] + x[...].sum(axis=1)


def computed[M: Dim](
    x: Ref[tp.BLOCK, f32, Mul[L[2], M], Add[M, L[1]], FloorDiv[M, L[4]], CDiv[M, L[3]]],
) -> Block[f32, Mul[L[2], M]]:
    return x[:, 0, 0, 0]


def whole[M: Dim](x: Array[f32, M], y: Array[f32, M] | None = None) -> Array[f32, M]:
    return x if y is None else x + y


def unknown(x: Ref[tp.BLOCK, Any, *tuple[Any, ...]], o: Out[tp.BLOCK, Any, *tuple[Any, ...]]) -> None:
    o[...] = relu_of(x[...])


def relu_of[E: Float, *S](x: Block[E, *S]) -> Block[E, *S]:
    return jnp.maximum(x, 0)


@tp.typed
def checked[M: Dim](x: Block[f32, M], scale: float) -> Block[f32, M]:
    return x * scale


def calls(x: jax.Array) -> jax.Array:
    return whole(checked(x, 2.0))
