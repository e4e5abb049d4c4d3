"""Annotations that mean nothing, and helpers that are called with the wrong thing."""

from typing import Literal as L

import jax.numpy as jnp

from typedpallas import Block, Dim, In, Mul, Multiple, Ref, f32
from typedpallas.tpu import VMEM


def bare(x: In[VMEM, f32, 128]) -> None:  # E: write the dim 128 as `L[128]`
    x[...]


def text(x: "Block[f32, '2*BM']") -> None:  # E: expected a dim
    x + 1


def halved[A: Dim](x: Block[f32, Mul[L[2], A], L[8]]) -> Block[f32, A]:
    raise NotImplementedError


def aligned[A: Multiple[L[8]]](x: Block[f32, A]) -> None: ...


def equal[A: Dim](x: Block[f32, A], y: Block[f32, A]) -> Block[f32, A]:
    return x + y


def transposing[R: Dim, N: Dim](x: Block[f32, R, N]) -> Block[f32, R, N]:
    return jnp.exp(x).T  # E: shape-mismatch


def row[R: Dim, N: Dim](x: Ref[VMEM, f32, R, N], i: int) -> Block[f32, N]:
    return x[i, :]


def calls[R: Dim, N: Dim](x: In[VMEM, f32, R, N], odd: Block[f32, L[255], L[8]], y: Block[f32, L[100]]) -> None:
    halved(odd)  # E: shape-mismatch
    aligned(y)  # E: not-a-multiple
    aligned(x[0])
    equal(y, x[0])  # E: shape-mismatch
    equal(x[0], row(x, 3))
