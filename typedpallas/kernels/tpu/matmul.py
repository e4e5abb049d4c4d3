"""Matrix products on TPUs: floats summed in float32, and int8 or fp8 with a scale for each row and column.

Blocks of sums stay in VMEM while the grid's last axis runs along what is summed.
"""

import functools
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

import typedpallas as tp
from typedpallas import Dim, In, Out, Scratch, f32
from typedpallas.kernels import costs
from typedpallas.kernels.tpu import blocks
from typedpallas.tpu import VMEM

type Block = tuple[int, int, int]
"""Rows, summed elements and columns of one block."""

_FLOAT8 = (jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3b11fnuz)


def matmul_kernel[T: tp.Float, U: tp.Float, BM: Dim, BK: Dim, BN: Dim](
    x: In[VMEM, T, BM, BK], y: In[VMEM, T, BK, BN], out: Out[VMEM, U, BM, BN], acc: Scratch[VMEM, f32, BM, BN]
) -> None:
    """One step along the summed axis: ``acc += x @ y``, stored after the last."""
    pl.when(pl.program_id(2) == 0)(functools.partial(_clear, acc))
    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _() -> None:
        out[...] = acc[...].astype(out.dtype)


def scaled_matmul_kernel[T: tp.Number, A: tp.Number, U: tp.Float, BM: Dim, BK: Dim, BN: Dim](
    x: In[VMEM, T, BM, BK],
    y: In[VMEM, T, BK, BN],
    x_scale: In[VMEM, f32, BM, L[1]],
    y_scale: In[VMEM, f32, L[1], BN],
    out: Out[VMEM, U, BM, BN],
    acc: Scratch[VMEM, A, BM, BN],
) -> None:
    """As `matmul_kernel`; rows and columns of the sums (int32 of int8, else float32) are scaled when stored."""
    pl.when(pl.program_id(2) == 0)(functools.partial(_clear, acc))
    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=acc.dtype)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _() -> None:
        out[...] = (acc[...].astype(jnp.float32) * x_scale[...] * y_scale[...]).astype(out.dtype)


def _clear(ref: Any) -> None:
    ref[...] = jnp.zeros(ref.shape, ref.dtype)


def _cost(
    out_dtype: Any, x: jax.ShapeDtypeStruct, y: jax.ShapeDtypeStruct, *scales: jax.ShapeDtypeStruct
) -> pl.CostEstimate:
    out = jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), out_dtype)
    return costs.products(x.size * y.shape[1], (x, y, *scales, out))


@functools.cache
def launch(out_dtype: Any, interpret: Any = None) -> tp.Launch:
    """Takes ``x``, ``y`` and the block sizes ``BM``, ``BK`` and ``BN`` (elements)."""
    return tp.launch(
        matmul_kernel,
        "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)",
        grid="i j k",
        ragged="BM BN",
        dtypes={"U": out_dtype},
        backend="mosaic_tpu",
        interpret=interpret,
        tuning=tp.Tuning(cost=functools.partial(_cost, out_dtype)),
    )


@functools.cache
def scaled_launch(sum_dtype: Any, out_dtype: Any, interpret: Any = None) -> tp.Launch:
    """Takes ``x``, ``y``, ``x_scale`` (a column), ``y_scale`` (a row) and the block sizes, as `launch`."""
    return tp.launch(
        scaled_matmul_kernel,
        "(i BM) (k BK), (k BK) (j BN), (i BM) 1, 1 (j BN) -> (i BM) (j BN)",
        grid="i j k",
        ragged="BM BN",
        dtypes={"A": sum_dtype, "U": out_dtype},
        backend="mosaic_tpu",
        interpret=interpret,
        tuning=tp.Tuning(cost=functools.partial(_cost, out_dtype)),
    )


def matmul(
    x: jax.Array, y: jax.Array, *, out_dtype: Any = None, block: Block | None = None, interpret: Any = None
) -> jax.Array:
    """``x @ y``.

    Args:
        x: float32 or bfloat16, shape ``(m, k)``. TPU v2 and v3 multiply float32 alone.
        y: the same type, shape ``(k, n)``.
        out_dtype: any float type; unless given, that of ``x``.
        block: ``(BM, BK, BN)``, elements; ``BK`` divides ``k``. Unless given, what fits every chip.
        interpret: as `tp.launch` takes it.

    Returns:
        Shape ``(m, n)`` of ``out_dtype``, summed in float32.

    Raises:
        LaunchError: ``x`` and ``y`` are no two matrices of one float type that can be multiplied.
    """
    _check("matmul", x, y, (jnp.float32, jnp.bfloat16))
    m, k, n = block or default(x.shape[0], x.shape[1], y.shape[1])
    run = launch(jnp.dtype(out_dtype or x.dtype), interpret)
    result: jax.Array = run(x, y, BM=m, BK=k, BN=n)
    return result


def scaled_matmul(
    x: jax.Array,
    y: jax.Array,
    x_scale: jax.Array,
    y_scale: jax.Array,
    *,
    out_dtype: Any = jnp.float32,
    block: Block | None = None,
    interpret: Any = None,
) -> jax.Array:
    """``(x @ y) * x_scale[:, None] * y_scale[None, :]``: the product of quantised matrices. From TPU v5e on.

    Args:
        x: int8, float8_e4m3fn, float8_e5m2 or (up to v6e) float8_e4m3b11fnuz, shape ``(m, k)``.
        y: the same type, shape ``(k, n)``.
        x_scale: float32, shape ``(m,)``.
        y_scale: float32, shape ``(n,)``.
        out_dtype: any float type.
        block: as for `matmul`.
        interpret: as `tp.launch` takes it.

    Returns:
        Shape ``(m, n)`` of ``out_dtype``; sums of int8 are int32 and exact, others float32.

    Raises:
        LaunchError: shapes or types do not fit each other.
    """
    _check("scaled_matmul", x, y, (jnp.int8, *_FLOAT8))
    (rows, depth), columns = x.shape, y.shape[1]
    for name, scale, size in (("x_scale", x_scale, rows), ("y_scale", y_scale, columns)):
        if scale.shape != (size,):
            raise tp.LaunchError(f"scaled_matmul: `{name}`: expected shape {(size,)}, found {scale.shape}")
    m, k, n = block or default(rows, depth, columns)
    sums = jnp.dtype(jnp.int32 if x.dtype == jnp.int8 else jnp.float32)
    run = scaled_launch(sums, jnp.dtype(out_dtype), interpret)
    result: jax.Array = run(x, y, x_scale.reshape(-1, 1), y_scale.reshape(1, -1), BM=m, BK=k, BN=n)
    return result


def default(m: int, k: int, n: int) -> Block:
    """Blocks that fit every chip's VMEM, for elements of up to four bytes."""
    return blocks.partial(m, 512, 32), blocks.divisor(k, 512, 128), blocks.partial(n, 512, 128)


def _check(name: str, x: jax.Array, y: jax.Array, types: tuple[Any, ...]) -> None:
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0]:
        raise tp.LaunchError(f"{name}: expected shapes (m, k) and (k, n), found {x.shape} and {y.shape}")
    if x.dtype != y.dtype or x.dtype not in types:
        expected = ", ".join(jnp.dtype(kind).name for kind in types)
        raise tp.LaunchError(f"{name}: expected one type of {expected}, found {x.dtype} and {y.dtype}")
