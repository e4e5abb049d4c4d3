"""Calls of a launch: sizes, arrays, results."""
# ruff: noqa: E501

from typing import Any, Final, reveal_type
from typing import Literal as L

import jax

import typedpallas as tp
from typedpallas import Array, In, Multiple, Out, Scratch, bf16, f32
from typedpallas.tpu import VMEM


def matmul_kernel[BM: Multiple[L[16]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[VMEM, bf16, BM, BK],
    y: In[VMEM, bf16, BK, BN],
    o: Out[VMEM, f32, BM, BN],
    acc: Scratch[VMEM, f32, BM, BN],
) -> None: ...


def scale_kernel[T: tp.Float, R: Multiple[L[8]], N: tp.Dim](
    x: In[tp.BLOCK, T, R, N], g: In[tp.BLOCK, f32, N], o: Out[tp.BLOCK, T, R, N], s: Out[tp.BLOCK, f32, R]
) -> None: ...


def add_kernel[T: tp.Float, R: tp.Dim](
    x: In[tp.BLOCK, T, R, L[512]], y: In[tp.BLOCK, T, R, L[512]], o: Out[tp.BLOCK, T, R, L[512]]
) -> None: ...


both = tp.launch(add_kernel, "(i R) N, (i R) N -> (i R) N", grid="i")
matmul = tp.launch(matmul_kernel, "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", grid="i j k")
ragged_matmul = tp.launch(
    matmul_kernel, "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", grid="i j k", ragged="BM"
)
scale = tp.launch(scale_kernel, "(i R) N, N -> (i R) N, (i R)", grid="i")
BM: Final = 256
BN = 128


def good[M: tp.Dim, K: tp.Dim, N: tp.Dim](x: Array[bf16, M, K], y: Array[bf16, K, N]) -> Array[f32, M, N]:
    z = matmul(x, y, BM=BM, BK=512, BN=BN * 2)
    reveal_type(z)  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, M, N]"
    return z  # type: ignore[no-any-return, unused-ignore]


def results(x: Array[bf16, L[1024], L[512]], g: Array[f32, L[512]]) -> None:
    a, b = scale(x, g, R=8)
    reveal_type(a)  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.bf16, Literal[1024], Literal[512]]"
    reveal_type(b)  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, Literal[1024]]"


def plain(x: jax.Array, y: jax.Array, m: int, sizes: dict[str, int], arrays: list[jax.Array]) -> Any:
    matmul(x, y, BM=m, BK=128, BN=128)
    matmul(x, y, **sizes)
    matmul(*arrays, BM=16, BK=128, BN=128)
    return matmul(x, y, BM=64, BK=128, BN=128)


def sizes(x: jax.Array, y: jax.Array) -> None:
    matmul(x, y, BM=100, BK=128, BN=128)  # E: `BM` = 100 breaks its bound: expected a multiple of 16  [not-a-multiple]
    matmul(x, y, BM=16, BK=128, BN=64)  # E: `BN` = 64 breaks its bound: expected a multiple of 128  [not-a-multiple]
    bk = 64
    matmul(x, y, BM=16, BK=bk, BN=128)  # E: `BK` = 64 breaks its bound: expected a multiple of 128  [not-a-multiple]
    matmul(x, y, BM=16, BK=128)  # E: nothing gives `matmul` the size of `BN`: expected `BN=...` in the call or in `.bind(...)`  [missing-size]
    matmul(x, y, BM=16, BK=128, BN=128, BL=8)  # E: `matmul` has no size `BL`: expected one of `BM`, `BK`, `BN`, `i`, `j`, `k`  [unknown-size]
    matmul(x, BM=16, BK=128, BN=128)  # E: `matmul` and this call disagree on the number of inputs: expected 2 (`x`, `y`), found 1  [wrong-arity]


def shapes(
    x: Array[bf16, L[1024], L[512]], y: Array[bf16, L[256], L[1024]], flat: Array[bf16, L[1024]], g: Array[f32, L[100]]
) -> None:
    matmul(x, y, BM=16, BK=128, BN=128)  # E: `(k BK)` has two sizes: expected 512, axis 1 of `x`, found 256, axis 0 of `y`  [block-conflict]
    matmul(flat, y, BM=16, BK=128, BN=128)  # E: the array of `x` does not fit its pattern: expected rank 2, found rank 1 (1024)  [wrong-block]
    scale(x, g, R=8)  # E: `N` has two sizes: expected 512, axis 1 of `x`, found 100, axis 0 of `g`  [block-conflict]


def partial(x: Array[bf16, L[1000], L[512]], y: Array[bf16, L[512], L[256]]) -> None:
    matmul(x, y, BM=96, BK=128, BN=128)  # E: block of `x` does not divide axis 0: expected a divisor of 1000, found BM=96  [ragged-block]
    ragged_matmul(x, y, BM=96, BK=128, BN=128)
    ragged_matmul(x, y, BM=96, BK=384, BN=128)  # E: block of `x` does not divide axis 1: expected a divisor of 512, found BK=384  [ragged-block]


def elements(x: Array[f32, L[512], L[512]], y: Array[bf16, L[512], L[512]]) -> None:
    matmul(x, y, BM=16, BK=128, BN=128)  # E: `x` of `matmul_kernel` has another element type than its annotation: expected `bf16`, found `f32`  [dtype-mismatch]
    both(y, x, R=8)  # E: `y` of `add_kernel` has another element type than its annotation: expected `bf16`, found `f32`  [dtype-mismatch]


def generic[M: tp.Dim, K: tp.Dim, N: tp.Dim](x: Array[bf16, M, K], y: Array[bf16, N, K]) -> None:
    matmul(x, y, BM=16, BK=128, BN=128)  # E: `(k BK)` has two sizes: expected K, axis 1 of `x`, found N, axis 0 of `y`  [block-conflict]


# Sizes bound in advance.
tuned = matmul.bind(BM=256, BK=512)
matmul.bind(BM=100)  # E: `BM` = 100 breaks its bound: expected a multiple of 16  [not-a-multiple]
matmul.bind(BX=100)  # E: `matmul` has no size `BX`: expected one of `BM`, `BK`, `BN`, `i`, `j`, `k`  [unknown-size]


def bound(x: Array[bf16, L[1024], L[512]], y: Array[bf16, L[512], L[256]]) -> None:
    reveal_type(tuned(x, y, BN=128))  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, Literal[1024], Literal[256]]"
    tuned(x, y, BN=128, BM=128)
    tuned(x, y)  # E: nothing gives `tuned` the size of `BN`: expected `BN=...` in the call or in `.bind(...)`  [missing-size]
    tuned.bind(BN=128)(x, y)


def iota(o: Out[tp.BLOCK, f32, L[8], L[128]]) -> None: ...


counted = tp.launch(iota, "-> (i 8) 128", grid="i", dims={"i": 4})
uncounted = tp.launch(iota, "-> (i 8) 128", grid="i")
misnamed = tp.launch(iota, "-> (i 8) 128", grid="i", dims={"j": 4})  # E: `iota` has no size `j`: expected `i`  [unknown-size]
broken = tp.launch(iota, "(i 8) 128 -> (i 8) 128", grid="i")  # E: `iota` and the pattern disagree on the number of inputs: expected none, found 1  [wrong-arity]


def literal(x: In[tp.BLOCK, f32, L[8], L[128]], o: Out[tp.BLOCK, f32, L[8], L[128]]) -> None: ...


fixed = tp.launch(literal, "(i B) N -> (i B) N", grid="i")


def numbers(x: Array[f32, L[64], L[128]], y: Array[f32, L[64], L[256]]) -> None:
    fixed(x)
    fixed(x, B=8)
    fixed(x, B=16)  # E: `B` has two sizes: expected 8, in the annotations of `literal`, found 16, `B=16` in this call  [block-conflict]
    fixed(y)  # E: `N` has two sizes: expected 128, in the annotations of `literal`, found 256, axis 1 of `x`  [block-conflict]


def without_inputs(x: jax.Array) -> None:
    reveal_type(counted())  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, Literal[32], Literal[128]]"
    uncounted(i=4)
    uncounted()  # E: nothing gives `uncounted` the size of `i`: expected `i=...` in the call or in `.bind(...)`  [missing-size]
    broken(x, x, y=1)


def chosen(x: jax.Array, y: jax.Array, fast: bool) -> Any:
    one = matmul if fast else tuned
    return one(x, y, BM=16, BK=128, BN=128)
