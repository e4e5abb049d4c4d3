"""The matrix product, summed in float32 over a sequential axis."""

from typing import Literal as L

import jax

import typedpallas as tp
from typedpallas import ACC, BLOCK, Dim, In, Multiple, Out, Scratch, f32
from typedpallas.kernels import defaults


def matmul_kernel[T: tp.Float, BM: Multiple[L[8]], BK: Dim, BN: Dim](
    x: In[BLOCK, T, BM, BK],
    y: In[BLOCK, T, BK, BN],
    out: Out[BLOCK, T, BM, BN],
    acc: Scratch[ACC, f32, BM, BN],
) -> None:
    """One step along the summed axis: ``acc += x @ y``, stored after the last."""
    tp.mma(acc, x, y)

    @tp.last
    def _() -> None:
        out[...] = acc[...].astype(out.dtype)


launch = tp.launch(
    matmul_kernel,
    "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)",
    grid="i j k",
    ragged="BM BN",
)
"""Takes ``x``, ``y`` and the block sizes ``BM``, ``BK`` and ``BN`` (elements)."""


def matmul(x: jax.Array, y: jax.Array, *, block: tuple[int, int, int] | None = None) -> jax.Array:
    """``x @ y``.

    Args:
        x: any float type, shape ``(m, k)``. Float32 on a GPU is multiplied by Triton.
        y: the same type, shape ``(k, n)``.
        block: ``(BM, BK, BN)``, elements; ``BK`` divides ``k``. Unless given, what fits the backend.

    Returns:
        Shape ``(m, n)`` of the same type, summed in float32.
    """
    if x.ndim != 2 or y.ndim != 2:
        raise tp.LaunchError(f"matmul: expected two matrices, found shapes {x.shape} and {y.shape}")
    m, k, n = block or defaults.matmul(x.shape[0], x.shape[1], y.shape[1], x.dtype.itemsize)
    result: jax.Array = launch(x, y, BM=m, BK=k, BN=n)
    return result
