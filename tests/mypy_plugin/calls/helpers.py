"""Helpers whose annotations refuse what they are given: the rule that says why, instead of mypy's whole types."""
# ruff: noqa: E501

from typing import Literal as L

import jax.numpy as jnp

from typedpallas import Block, Dim, In, Mul, Out, Ref, Scratch, bf16, f32
from typedpallas.tpu import DMA, HBM, REGULAR, VMEM


def add[M: Dim, N: Dim](acc: Ref[VMEM, f32, M, N], x: Ref[VMEM, f32, M, N]) -> None: ...
def clear[M: Dim](acc: Out[VMEM, f32, M, L[128]]) -> None: ...
def doubled[M: Dim](x: Block[f32, M, L[128]]) -> Block[f32, M, L[128]]:
    return x * 2.0
def fixed(x: Block[f32, L[8], L[128]], y: Ref[VMEM, f32, L[8]]) -> None: ...
def halves[M: Dim](x: Block[f32, Mul[L[2], M]], y: Block[f32, M]) -> None: ...
def ready(done: Scratch[DMA]) -> None: ...


class Helpers:
    def add[M: Dim, N: Dim](self, acc: Ref[VMEM, f32, M, N], x: Ref[VMEM, f32, M, N]) -> None: ...


def kernel[A: Dim, B: Dim](
    far: In[HBM, f32, A, B],
    x: In[VMEM, f32, A, B],
    narrow: Scratch[VMEM, bf16, A, B],
    turned: Out[VMEM, f32, B, A],
    lanes: In[VMEM, f32, A, L[128]],
    half: Scratch[VMEM, f32, A, L[64]],
    row: In[VMEM, f32, L[8]],
    signal: Scratch[REGULAR],
) -> None:
    add(x, far)  # E: `x` of `add` lies in the wrong memory space: expected `tpu.VMEM`, found `tpu.HBM`  [wrong-space]
    add(x, narrow)  # E: `x` of `add` has another element type than its annotation: expected `f32`, found `bf16`  [dtype-mismatch]
    add(x, turned)  # E: `x` of `add` gets another shape than its annotation: expected `f32[A, B]`, found `f32[B, A]`  [shape-mismatch]
    add(acc=row, x=x)  # E: `acc` of `add` gets another shape than its annotation: expected `f32[A, B]`, found `f32[8]`  [shape-mismatch]
    add(x, x)
    add(turned.at[0:8, 0:8], x.at[0:8, 0:8])
    Helpers().add(x, turned)  # E: `x` of `add` gets another shape than its annotation: expected `f32[A, B]`, found `f32[B, A]`  [shape-mismatch]
    clear(lanes)  # E: cannot store to `lanes`: expected an `Out`, an `InOut` or a `Scratch`, found an `In`  [store-to-input]
    clear(turned)  # E: `acc` of `clear` gets another shape than its annotation: expected `f32[B, 128]`, found `f32[B, A]`  [shape-mismatch]
    doubled(lanes[...])
    doubled(x[...])  # E: `x` of `doubled` gets another shape than its annotation: expected `f32[A, 128]`, found `f32[A, B]`  [shape-mismatch]
    doubled(half[...] + 1.0)  # E: `x` of `doubled` gets another shape than its annotation: expected `f32[A, 128]`, found `f32[A, 64]`  [shape-mismatch]
    fixed(lanes[0:8], row)
    fixed(lanes[...], row)  # E: `x` of `fixed` gets another shape than its annotation: expected `f32[8, 128]`, found `f32[A, 128]`  [shape-mismatch]
    fixed(lanes[0:8].astype(jnp.bfloat16), row)  # E: `x` of `fixed` has another element type than its annotation: expected `f32`, found `bf16`  [dtype-mismatch]
    halves(row[...], row[0:4])
    halves(row[...], row[...])  # E: `x` of `halves` gets another shape than its annotation: expected `f32[16]`, found `f32[8]`  [shape-mismatch]
    ready(signal)  # E: `done` of `ready` lies in the wrong memory space: expected `tpu.DMA`, found `tpu.REGULAR`  [wrong-space]


def turned[A: Dim, B: Dim](x: Ref[VMEM, f32, A, B], y: Block[f32, A, B]) -> Block[f32, A, B]:
    if x.shape[0] == 8:
        return jnp.exp(x[...])
    if x.shape[0] == 16:
        return x[...].T  # E: `turned` gives back another shape than its annotation: expected `f32[A, B]`, found `f32[B, A]`  [shape-mismatch]
    if x.shape[0] == 32:
        return x[0]  # E: `turned` gives back another shape than its annotation: expected `f32[A, B]`, found `f32[B]`  [shape-mismatch]
    if x.shape[0] == 64:
        return y > 0  # E: `turned` gives back another element type than its annotation: expected `f32`, found `bool_`  [dtype-mismatch]

    def inner() -> Block[f32, B, A]:
        return y.T

    return inner().T
