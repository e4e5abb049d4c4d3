"""What is wrong with a launch on Mosaic GPU has the kernel's own line and the names of its parameters."""

from typing import Literal as L

import jax
import jax.numpy as jnp

import typedpallas as tp
from typedpallas import In, Multiple, Out, Scratch, bf16, f32


def wide_kernel[BM: Multiple[L[64]], BK: Multiple[L[64]], BN: Multiple[L[128]]](
    x: In[tp.BLOCK, bf16, BM, BK],
    y: In[tp.BLOCK, bf16, BK, BN],
    out: Out[tp.BLOCK, bf16, BM, BN],
    acc: Scratch[tp.ACC, f32, BM, BN],
) -> None:
    tp.mma(acc, x, y)

    @tp.last
    def _() -> None:
        out[...] = acc[...].astype(out.dtype)


wide = tp.launch(wide_kernel, "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", grid="i j k", backend="mosaic_gpu")


def test_errors_point_into_the_kernel() -> None:
    array = jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16)
    found = wide.check(array, array, target="h100", BM=256, BK=256, BN=512).diagnostics
    assert {"shared-memory-overflow", "tma-box"} <= {item.rule for item in found}
    first = wide_kernel.__code__.co_firstlineno
    for item in found:
        assert item.file == __file__ and first <= item.line <= first + 10, item
        assert not any(name in item.message + item.witness for name in ("refs[", "scratch[")), item
    (memory,) = (item for item in found if item.rule == "shared-memory-overflow")
    assert "`pipeline input 1` takes 512.0 KiB" in memory.witness
