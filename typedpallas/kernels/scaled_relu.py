"""``max(2x + 1, 0)``, elementwise: the smallest kernel that moves blocks in and out."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

import typedpallas as tp
from typedpallas import BLOCK, Dim, In, Out
from typedpallas.kernels import costs, defaults


def scaled_relu_kernel[T: tp.Float, BM: Dim, BN: Dim](
    x: In[BLOCK, T, BM, BN],
    out: Out[BLOCK, T, BM, BN],
) -> None:
    """One block: ``out = max(2x + 1, 0)``."""
    out[...] = jnp.maximum(x[...] * 2 + 1, 0)


def cost(x: jax.ShapeDtypeStruct) -> pl.CostEstimate:
    """Of a call."""
    return costs.estimate(3 * x.size, (x, x))


launch = tp.launch(
    scaled_relu_kernel,
    "(i BM) (j BN) -> (i BM) (j BN)",
    grid="i j",
    ragged="BM BN",
    tuning=tp.Tuning(cost=cost),
)
"""Takes ``x`` and the block sizes ``BM`` and ``BN`` (elements)."""


def scaled_relu(x: jax.Array, *, block: tuple[int, int] | None = None) -> jax.Array:
    """``max(2x + 1, 0)``.

    Args:
        x: any float type, shape ``(m, n)``.
        block: ``(BM, BN)``, elements of one block; unless given, what fits the backend.

    Returns:
        The same shape and type as ``x``.
    """
    if x.ndim != 2:
        raise tp.LaunchError(f"scaled_relu: expected an array of rank 2, found shape {x.shape}")
    rows, columns = block or defaults.elementwise(x.shape[0], x.shape[1])
    result: jax.Array = launch(x, BM=rows, BN=columns)
    return result
