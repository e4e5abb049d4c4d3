"""The matrix product, summed in float32 over a sequential axis."""

import functools
from collections.abc import Callable
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

import typedpallas as tp
from typedpallas import ACC, BLOCK, Dim, In, Multiple, Out, Scratch, f32
from typedpallas.kernels import costs, defaults
from typedpallas.launching.choose import choices
from typedpallas.launching.jaxapi import without_rules


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


def cost(x: jax.ShapeDtypeStruct, y: jax.ShapeDtypeStruct) -> pl.CostEstimate:
    """Of a call."""
    out = jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype)
    return costs.products(x.size * y.shape[1], (x, y, out))


launch = tp.launch(
    matmul_kernel,
    "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)",
    grid="i j k",
    ragged="BM BN",
    tuning=tp.Tuning(cost=cost),
)
"""Takes ``x``, ``y`` and the block sizes ``BM``, ``BK`` and ``BN`` (elements)."""


def matmul(
    x: jax.Array,
    y: jax.Array,
    *,
    bias: jax.Array | None = None,
    scale: float = 1.0,
    activation: Callable[[jax.Array], jax.Array] | None = None,
    out_dtype: Any = None,
    block: tuple[int, int, int] | None = None,
) -> jax.Array:
    """``activation(scale * (x @ y) + bias)``.

    A Hopper GPU multiplies float16 and bfloat16 with the kernel of `typedpallas.kernels.gpu`, which does the rest
    before it stores. Elsewhere a plain product is one launch, and XLA runs one with anything more.

    Args:
        x: any float type, shape ``(m, k)``. Float32 on a GPU is multiplied by Triton.
        y: the same type, shape ``(k, n)``.
        bias: any float type, shape ``(n,)``.
        scale: factor of the products, not zero.
        activation: an elementwise function of float32 values, such as `jax.nn.silu`.
        out_dtype: unless given, that of ``x``.
        block: ``(BM, BK, BN)``, elements; ``BK`` divides ``k``. Unless given, what fits the backend. With it, the
            product is a launch on any machine.

    Returns:
        Shape ``(m, n)``, summed and finished in float32.

    Raises:
        LaunchError: the shapes do not fit, or ``block`` is given with what a launch does not do.
    """
    if x.ndim != 2 or y.ndim != 2:
        raise tp.LaunchError(f"matmul: expected two matrices, found shapes {x.shape} and {y.shape}")
    if bias is not None and bias.shape != y.shape[1:]:
        raise tp.LaunchError(f"matmul: `bias`: expected shape {y.shape[1:]}, found {bias.shape}")
    more = bias is not None or scale != 1.0 or activation is not None or out_dtype not in (None, x.dtype)
    if block is not None and more:
        raise tp.LaunchError("matmul: `block` is for plain products, without bias, scale, activation and `out_dtype`")
    finish = functools.partial(_finish, scale, activation)
    if block is None and _on_hopper(x, y):
        from typedpallas.kernels.gpu.matmul import matmul as on_hopper

        added = None if bias is None else bias.astype(jnp.float32) / scale
        return on_hopper(x, y, bias=added, finish=without_rules(finish), out_dtype=out_dtype)
    if more:
        sums = jnp.dot(x, y, preferred_element_type=jnp.float32)
        added = sums if bias is None else sums + bias.astype(jnp.float32) / scale
        return finish(added).astype(out_dtype or x.dtype)
    m, k, n = block or defaults.matmul(x.shape[0], x.shape[1], y.shape[1], x.dtype.itemsize)
    result: jax.Array = launch(x, y, BM=m, BK=k, BN=n)
    return result


def _on_hopper(x: jax.Array, y: jax.Array) -> bool:
    """Whether the machine at hand has a kernel of its own for such operands."""
    way = choices(None, None)[0]
    hopper = not way.interpret and way.capability is not None and way.capability[0] == 9
    return hopper and x.dtype == y.dtype and x.dtype in (jnp.float16, jnp.bfloat16) and x.shape[1] == y.shape[-2]


def _on_tpu(x: jax.Array, y: jax.Array) -> bool:
    """Whether the machine at hand is a TPU with a kernel for such groups."""
    from typedpallas.kernels.tpu import blocks

    whole = y.shape[1] % 128 == 0 and y.shape[2] % 128 == 0
    return whole and x.dtype == y.dtype and blocks.served(x.dtype)


def _finish(scale: float, activation: Callable[[jax.Array], jax.Array] | None, sums: jax.Array) -> jax.Array:
    scaled = sums if scale == 1.0 else sums * scale
    return scaled if activation is None else activation(scaled)


def grouped_matmul(x: jax.Array, y: jax.Array, sizes: jax.Array) -> jax.Array:
    """Each row of ``x`` times the matrix of its group.

    A Hopper GPU runs the kernel of `typedpallas.kernels.gpu` for float16 and bfloat16, ``k`` a multiple of 64 and
    ``n`` of 128; a TPU that of `typedpallas.kernels.tpu` for float32 and, from v4 on, bfloat16, ``k`` and ``n``
    multiples of 128. Everything else is `jax.lax.ragged_dot`.

    Args:
        x: any float type, shape ``(m, k)``: the rows of the first group, then those of the second, ...
        y: the same type, shape ``(groups, k, n)``.
        sizes: int32, shape ``(groups,)``: how many rows each group has. Rows past their sum get zeros.

    Returns:
        Shape ``(m, n)`` of the same type, summed in float32.

    Raises:
        LaunchError: the shapes do not fit each other.
    """
    if x.ndim != 2 or y.ndim != 3 or x.shape[1] != y.shape[1] or sizes.shape != y.shape[:1]:
        raise tp.LaunchError(
            f"grouped_matmul: expected (m, k), (groups, k, n) and (groups,), found shapes {x.shape}, {y.shape} and "
            f"{sizes.shape}"
        )
    if _on_hopper(x, y) and x.shape[1] % 64 == 0 and y.shape[2] % 128 == 0:
        from typedpallas.kernels.gpu.grouped_matmul import grouped_matmul as on_hopper

        return on_hopper(x, y, sizes)
    if _on_tpu(x, y):
        from typedpallas.kernels.tpu.grouped_matmul import grouped_matmul as on_tpu

        return on_tpu(x, y, sizes.astype(jnp.int32))
    sums = jax.lax.ragged_dot(x, y, sizes, preferred_element_type=jnp.float32)
    return sums.astype(x.dtype)
