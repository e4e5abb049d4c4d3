"""The gradients of softmax and of norms along the last axis, in one pass over the rows.

Parameters get sums over all rows: each program goes through its own rows, keeps their sums and writes them once.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

import typedpallas as tp
from typedpallas import BLOCK, STATE, Dim, In, Out, Scratch, f32
from typedpallas.events import Backend
from typedpallas.kernels import costs, defaults
from typedpallas.launching.choose import choices

PROGRAMS = 256
"""Of a GPU, each with as many rows: the fastest on an H200."""


def softmax_backward_kernel[T: tp.Float, BR: Dim, C: Dim](
    d_out: In[BLOCK, T, BR, C], out: In[BLOCK, T, BR, C], d_x: Out[BLOCK, T, BR, C]
) -> None:
    """``out * (d_out - sum(out * d_out))`` of each row."""
    gradients = tp.load_rows(d_out).astype(jnp.float32)
    weights = tp.load_rows(out).astype(jnp.float32)
    mean = (weights * gradients).sum(axis=1)
    d_x[...] = (weights * (gradients - tp.broadcast_rows(mean, weights.shape))).astype(d_x.dtype)


def rms_norm_backward_kernel[T: tp.Float, U: tp.Float, BR: Dim, C: Dim](
    d_out: In[BLOCK, T, BR, C],
    x: In[BLOCK, T, BR, C],
    weight: In[BLOCK, U, L[1], C],
    d_x: Out[BLOCK, T, BR, C],
    d_weight: Out[BLOCK, f32, L[1], C],
    sums: Scratch[STATE, f32, L[1], C],
    *,
    epsilon: float,
) -> None:
    """Some rows; their part of the gradient of ``weight`` is added to ``sums``."""

    @tp.first
    def _() -> None:
        sums[...] = jnp.zeros(sums.shape, sums.dtype)

    gradients = tp.load_rows(d_out).astype(jnp.float32)
    rows = tp.load_rows(x).astype(jnp.float32)
    factor = tp.broadcast_rows(lax.rsqrt((rows * rows).sum(axis=1) / rows.shape[1] + epsilon), rows.shape)
    normal = rows * factor
    scaled = gradients * jnp.broadcast_to(weight[...].astype(jnp.float32), rows.shape)
    along = (scaled * normal).sum(axis=1) / rows.shape[1]
    d_x[...] = (factor * (scaled - normal * tp.broadcast_rows(along, rows.shape))).astype(d_x.dtype)
    sums[...] += (gradients * normal).sum(axis=0, keepdims=True)

    @tp.last
    def _() -> None:
        d_weight[...] = sums[...]


def layer_norm_backward_kernel[T: tp.Float, U: tp.Float, BR: Dim, C: Dim](
    d_out: In[BLOCK, T, BR, C],
    x: In[BLOCK, T, BR, C],
    weight: In[BLOCK, U, L[1], C],
    d_x: Out[BLOCK, T, BR, C],
    d_weight: Out[BLOCK, f32, L[1], C],
    d_bias: Out[BLOCK, f32, L[1], C],
    weight_sums: Scratch[STATE, f32, L[1], C],
    bias_sums: Scratch[STATE, f32, L[1], C],
    *,
    epsilon: float,
) -> None:
    """Some rows; their parts of the gradients of ``weight`` and ``bias`` are added to the sums."""

    @tp.first
    def _() -> None:
        weight_sums[...] = jnp.zeros(weight_sums.shape, weight_sums.dtype)
        bias_sums[...] = jnp.zeros(bias_sums.shape, bias_sums.dtype)

    gradients = tp.load_rows(d_out).astype(jnp.float32)
    rows = tp.load_rows(x).astype(jnp.float32)
    columns = rows.shape[1]
    centred = rows - tp.broadcast_rows(rows.sum(axis=1) / columns, rows.shape)
    factor = tp.broadcast_rows(lax.rsqrt((centred * centred).sum(axis=1) / columns + epsilon), rows.shape)
    normal = centred * factor
    scaled = gradients * jnp.broadcast_to(weight[...].astype(jnp.float32), rows.shape)
    mean = tp.broadcast_rows(scaled.sum(axis=1) / columns, rows.shape)
    along = tp.broadcast_rows((scaled * normal).sum(axis=1) / columns, rows.shape)
    d_x[...] = (factor * (scaled - mean - normal * along)).astype(d_x.dtype)
    weight_sums[...] += (gradients * normal).sum(axis=0, keepdims=True)
    bias_sums[...] += gradients.sum(axis=0, keepdims=True)

    @tp.last
    def _() -> None:
        d_weight[...] = weight_sums[...]
        d_bias[...] = bias_sums[...]


_FLOPS: dict[Callable[..., None], int] = {
    softmax_backward_kernel: 4,
    rms_norm_backward_kernel: 10,
    layer_norm_backward_kernel: 15,
}
"""For each element."""


@functools.cache
def launch(
    kernel: Callable[..., None],
    sums: int,
    options: tuple[tuple[str, float], ...],
    backend: Backend | None = None,
    warps: int | None = None,
    parallel: str = "p",
) -> tp.Launch:
    """Takes two arrays of rows, the parameter if there are ``sums`` (shape ``(1, C)``) and the block size ``BR``.

    The rows have the shape ``(p, rows, C)``; each of the ``p`` parts gives sums of its own.
    """
    pattern = f"p (i BR) C, p (i BR) C{', 1 C' * (sums > 0)} -> p (i BR) C{', p 1 C' * sums}"
    return tp.launch(
        functools.partial(kernel, **dict(options)),
        pattern,
        grid="p i",
        backend=backend,
        tuning=tp.Tuning(num_warps=warps, cost=functools.partial(_cost, kernel, sums)),
    )


def _cost(kernel: Callable[..., None], sums: int, *operands: jax.ShapeDtypeStruct) -> pl.CostEstimate:
    first = operands[0]
    parts, rows, columns = first.shape
    summed = jax.ShapeDtypeStruct((parts, sums, columns), jnp.float32)
    return costs.estimate(_FLOPS[kernel] * first.size, (*operands, first, summed), parts * rows * (sums > 0))


def run(
    kernel: Callable[..., None],
    arrays: Sequence[jax.Array],
    weight: jax.Array | None,
    sums: int,
    warps: int | None = None,
    programs: int = PROGRAMS,
    **options: float,
) -> tuple[jax.Array, ...]:
    """The gradient of the rows (the last axis), and of as many parameters as there are ``sums``, in float32.

    Args:
        kernel: of this module.
        arrays: the gradients of the results, and what the kernel needs beside them; same shapes.
        weight: the parameter, shape ``arrays[0].shape[-1:]``.
        sums: how many parameters there are.
        warps: of Triton.
        programs: of a GPU, at most, where there are parameters.
        options: of the kernel.
    """
    first = arrays[0]
    columns = first.shape[-1]
    count = first.size // columns
    on_gpu = (way := choices(None, None)[0]).backend != "mosaic_tpu" and not way.interpret
    parts, block = _parts(count, columns, first.dtype.itemsize, programs if on_gpu and sums else 1)
    whole = -(-count // (parts * block)) * parts * block
    flat = [_padded(x.reshape(count, columns), whole).reshape(parts, whole // parts, columns) for x in arrays]
    call = launch(kernel, sums, tuple(options.items()), "triton" if on_gpu else None, warps if on_gpu else None)
    results = call(*flat, *(() if weight is None else (weight.reshape(1, columns),)), BR=block)
    d_rows, *partial = results if sums else (results,)
    d_x = d_rows.reshape(whole, columns)[:count].reshape(first.shape)
    return d_x, *(part.sum(axis=(0, 1)) for part in partial)


def _parts(count: int, columns: int, itemsize: int, programs: int) -> tuple[int, int]:
    """Parts of the rows that run side by side, and rows of a block."""
    whole = (n for n in range(min(programs, count), programs // 2, -1) if count % n == 0)
    return next(whole, programs), defaults.rows(count, columns, itemsize)


def _padded(rows: jax.Array, count: int) -> jax.Array:
    """Rows of zeros, which add nothing to any sum, up to ``count``."""
    return rows if rows.shape[0] == count else jnp.pad(rows, ((0, count - rows.shape[0]), (0, 0)))
