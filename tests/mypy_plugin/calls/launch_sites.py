"""`tp.launch` where it is made: pattern, arity, blocks, spaces."""
# ruff: noqa: E501

from typing import Literal as L

import typedpallas as tp
from typedpallas import In, InOut, Mul, Multiple, Out, Scratch, bf16, f32
from typedpallas.tpu import HBM, VMEM


def matmul[BM: Multiple[L[16]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[VMEM, bf16, BM, BK],
    y: In[VMEM, bf16, BK, BN],
    o: Out[VMEM, bf16, BM, BN],
    acc: Scratch[VMEM, f32, BM, BN],
) -> None: ...


def rows[R: Multiple[L[8]]](x: In[VMEM, f32, R, L[128]], o: Out[VMEM, f32, R, L[128]]) -> None: ...


def halves[R: tp.Dim](x: In[VMEM, f32, Mul[L[2], R], L[128]], o: Out[VMEM, f32, R, L[128]]) -> None: ...


def stays[R: tp.Dim](table: In[HBM, f32, R, L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None: ...


def update[R: tp.Dim](x: In[VMEM, f32, R], s: InOut[VMEM, f32, R]) -> None: ...


def swapped[R: tp.Dim](o: Out[VMEM, f32, R], x: In[VMEM, f32, R]) -> None: ...


def squeezed[BQ: tp.Dim, D: tp.Dim](q: In[tp.BLOCK, bf16, BQ, D], o: Out[tp.BLOCK, bf16, BQ, D]) -> None: ...


# Right.
tp.launch(matmul, "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", grid="i j k")
tp.launch(rows, "(i R) N -> (i R) N", grid="i")
tp.launch(rows, "(i R) 128 -> (i R) 128", grid="i")
tp.launch(halves, "(i R2) N -> (i R) N", grid="i")
tp.launch(stays, "R 128 -> (i 8) 128", grid="i")
tp.launch(stays, "R N -> (i BM) N", grid="i")
tp.launch(update, "(i R), (i R) -> (i R)", grid="i")
tp.launch(squeezed, "b h (i BQ) D -> b h (i BQ) D", grid="b h i")
tp.launch(matmul, ["(i BM) (k BK)", "(k BK) (j BN)", "-> (i BM) (j BN)"], grid="i j k")
tp.launch(
    squeezed,
    ["b h (i BQ) D", tp.spec("-> b h (i BQ) D", index=lambda b, h, i: (b, h, i, 0))],
    grid="b h i",
)

# The pattern cannot be read.
tp.launch(rows, "(i R N -> (i R) N", grid="i")  # E: the launch pattern cannot be read: this group is not closed  [bad-pattern]
tp.launch(rows, "(i R) N (i R) N", grid="i")  # E: the launch pattern cannot be read: expected `->` between the inputs and the outputs  [bad-pattern]
tp.launch(rows, "(j R) N -> (j R) N", grid="i")  # E: the launch pattern cannot be read: grid axis `i` occurs nowhere in the pattern `(j R) N -> (j R) N`  [bad-pattern]
tp.launch(rows, "(i R) N -> (j R) N", grid="i")  # E: the launch pattern cannot be read: `j` is not a grid axis (grid axes: i); a group starts with one  [bad-pattern]

# More or fewer operands than parameters, or another order.
tp.launch(rows, "(i R) N, (i R) N -> (i R) N", grid="i")  # E: `rows` and the pattern disagree on the number of inputs: expected 1 (`x`), found 2  [wrong-arity]
tp.launch(rows, "(i R) N -> (i R) N, (i R) N", grid="i")  # E: `rows` and the pattern disagree on the number of outputs: expected 1 (`o`), found 2  [wrong-arity]
tp.launch(swapped, "(i R) -> (i R)", grid="i")  # E: `swapped` and the pattern disagree on the order of its parameters: expected inputs, outputs, scratch, found `x` (In) after `o` (Out)  [wrong-arity]

# Blocks that are not what the annotations say.
tp.launch(matmul, "(i BM) (k BK), (k BN) (j BK) -> (i BM) (j BN)", grid="i j k")  # E: the block of `y` does not fit its annotation on axis 0: expected BK, found BN  [wrong-block]  # E: the block of `y` does not fit its annotation on axis 1: expected BN, found BK  [wrong-block]
tp.launch(rows, "(i R) -> (i R) N", grid="i")  # E: the block of `x` does not fit its annotation: expected rank 2 (R, 128), found rank 1 (R)  [wrong-block]
tp.launch(rows, "i N -> (i R) N", grid="i")  # E: the block of `x` does not fit its annotation: expected rank 2 (R, 128), found rank 1 (128)  [wrong-block]
tp.launch(rows, "(i R) 64 -> (i R) 128", grid="i")  # E: the block of `x` does not fit its annotation on axis 1: expected 128, found 64  [wrong-block]
tp.launch(halves, "(i R) N -> (i R) N", grid="i")  # E: the block of `x` does not fit its annotation on axis 0: expected 2*R, found R  [wrong-block]

# An operand that stays in HBM is whole.
tp.launch(stays, "(i 8) 128 -> (i 8) 128", grid="i")  # E: the block of `table` does not fit its annotation on axis 0: expected R, found 8  [wrong-block]  # E: `table` of `stays` is in `tpu.HBM` and is cut along the grid: expected the whole array, found `(i 8) 128` of the pattern  [windowed-any]
tp.launch(stays, "(i R) 128 -> (i 8) 128", grid="i")  # E: `table` of `stays` is in `tpu.HBM` and is cut along the grid: expected the whole array, found `(i R) 128` of the pattern  [windowed-any]


# Steps along a grid axis that the output lacks cannot run at the same time.
tp.launch(matmul, "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", grid="i j k", parallel="i j")
tp.launch(matmul, "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", grid="i j k", parallel="i j k")  # E: programs race on `o`: expected an output that depends on the parallel grid axis `k`, found all steps along `k` on one block  [write-race]
tp.launch(matmul, "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", grid="i j k", parallel=("k",))  # E: programs race on `o`: expected an output that depends on the parallel grid axis `k`, found all steps along `k` on one block  [write-race]


# Not understood: open and silent.
def anything(x, o): ...


def dynamic(text: str, axes: str) -> None:
    tp.launch(rows, text, grid="i")
    tp.launch(rows, "(i R) N -> (i R) N", grid=axes)
    tp.launch(anything, "(i R) N, N -> (i R) N", grid="i")
