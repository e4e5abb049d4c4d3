"""A launch, its checks and its compilation, portable operations."""

from typing import Literal as L

import jax
import jax.numpy as jnp

import typedpallas as tp
from typedpallas import Dim, In, Multiple, Out, Scratch, bf16, f32


def kernel[BM: Multiple[L[16]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[tp.BLOCK, bf16, BM, BK],
    y: In[tp.BLOCK, bf16, BN, BK],
    o: Out[tp.BLOCK, bf16, BM, BN],
    top: Scratch[tp.STATE, f32, BM],
    acc: Scratch[tp.ACC, f32, BM, BN],
) -> None:
    @tp.first
    def _() -> None:
        acc[...] = jnp.zeros_like(acc[...])
        top[...] = tp.load_rows(acc).max(axis=1)

    tp.mma(acc, x, y, transpose_y=True)
    acc[...] += tp.dot(x[...], y, transpose_y=True) * tp.grid_size("i") + tp.grid_index("k")

    @tp.last
    def _() -> None:
        o[...] = (acc[...] + tp.broadcast_rows(top[...], acc.shape)).astype(o.dtype)


matmul = tp.launch(kernel, "(i BM) (k BK), (j BN) (k BK) -> (i BM) (j BN)", grid="i j k", parallel="i j")
small = matmul.bind(BM=128, BN=128, BK=128)
windowed = tp.launch(
    kernel,
    ["(i BM) (k BK)", tp.spec("(j BN) (k BK)", index=lambda i, j, k: (j, k)), "-> (i BM) (j BN)"],
    grid="i j k",
)


def rows(x: In[tp.BLOCK, f32, L[8], L[128]], o: Out[tp.BLOCK, f32, L[8], L[128]]) -> None:
    o[...] = x[...]


def run(x: jax.Array, y: jax.Array) -> jax.Array:
    aval = jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16)
    report = tp.check(matmul, aval, aval, target="tpu-v5e")
    for item in report.diagnostics:
        print(item.rule, item.verdict, item.file, item.line, item.message, item.help, report.ok)
    try:
        print(small.check(aval, aval, target="h100").ok, tp.targets())
        tp.compile(small, aval, aval, target="tpu-v5e")
    except tp.CompileError as error:
        print(error.kind)
    except tp.PlacementError as error:
        print(error.diagnostics)
    plain = tp.pallas_call(rows, jax.ShapeDtypeStruct((8, 128), jnp.float32))
    result: jax.Array = plain(small(x, y))
    return result


def helper[M: Dim](x: In[tp.BLOCK, f32, M]) -> None: ...
