"""Softmax and norms along the last axis: a program of Triton for each row on GPUs, blocks of rows elsewhere.

On Hopper one stream of rows through shared memory is faster for the layer norm of float32 and the norms' gradients.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, cast
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

import typedpallas as tp
from typedpallas import BLOCK, Dim, In, Out
from typedpallas.events import Backend
from typedpallas.kernels import costs, defaults, rows_backward
from typedpallas.launching.choose import choices

_WARPS = {"softmax": 16, "rms_norm": 16, "layer_norm": 8}
"""Of one row of at least `_WIDE` elements on Triton: the fastest on an H200."""
_WIDE = 4096


def softmax_kernel[T: tp.Float, BR: Dim, C: Dim](x: In[BLOCK, T, BR, C], out: Out[BLOCK, T, BR, C]) -> None:
    """``exp(x) / sum(exp(x))`` of each row."""
    rows = tp.load_rows(x).astype(jnp.float32) * math.log2(math.e)
    weights = jnp.exp2(rows - tp.broadcast_rows(rows.max(axis=1), rows.shape))
    out[...] = (weights * tp.broadcast_rows(1 / weights.sum(axis=1), rows.shape)).astype(out.dtype)


def rms_norm_kernel[T: tp.Float, U: tp.Float, BR: Dim, C: Dim](
    x: In[BLOCK, T, BR, C], weight: In[BLOCK, U, L[1], C], out: Out[BLOCK, T, BR, C], *, epsilon: float
) -> None:
    """``x / rms(x) * weight`` of each row."""
    rows = tp.load_rows(x).astype(jnp.float32)
    factor = lax.rsqrt((rows * rows).sum(axis=1) / rows.shape[1] + epsilon)
    scaled = rows * tp.broadcast_rows(factor, rows.shape)
    out[...] = (scaled * jnp.broadcast_to(weight[...].astype(jnp.float32), rows.shape)).astype(out.dtype)


def layer_norm_kernel[T: tp.Float, U: tp.Float, BR: Dim, C: Dim](
    x: In[BLOCK, T, BR, C],
    weight: In[BLOCK, U, L[1], C],
    bias: In[BLOCK, U, L[1], C],
    out: Out[BLOCK, T, BR, C],
    *,
    epsilon: float,
) -> None:
    """``(x - mean) / deviation * weight + bias`` of each row."""
    rows = tp.load_rows(x).astype(jnp.float32)
    centred = rows - tp.broadcast_rows(rows.sum(axis=1) / rows.shape[1], rows.shape)
    factor = lax.rsqrt((centred * centred).sum(axis=1) / rows.shape[1] + epsilon)
    scaled = centred * tp.broadcast_rows(factor, rows.shape)
    scale, shift = (jnp.broadcast_to(p[...].astype(jnp.float32), rows.shape) for p in (weight, bias))
    out[...] = (scaled * scale + shift).astype(out.dtype)


_FLOPS: dict[Callable[..., None], int] = {softmax_kernel: 5, rms_norm_kernel: 4, layer_norm_kernel: 7}
"""For each element."""


@functools.cache
def launch(
    kernel: Callable[..., None],
    parameters: int,
    options: tuple[tuple[str, float], ...],
    backend: Backend | None = None,
    warps: int | None = None,
) -> tp.Launch:
    """Takes ``x``, the parameters (shape ``(1, C)``) and the block size ``BR`` (rows)."""
    return tp.launch(
        functools.partial(kernel, **dict(options)),
        f"(i BR) C{', 1 C' * parameters} -> (i BR) C",
        grid="i",
        ragged="BR",
        backend=backend,
        tuning=tp.Tuning(num_warps=warps, cost=functools.partial(_cost, kernel)),
    )


def _cost(kernel: Callable[..., None], x: jax.ShapeDtypeStruct, *parameters: jax.ShapeDtypeStruct) -> pl.CostEstimate:
    exponentials = x.size if kernel is softmax_kernel else x.shape[0]
    return costs.estimate(_FLOPS[kernel] * x.size, (x, *parameters, x), exponentials)


def softmax(x: jax.Array) -> jax.Array:
    """``exp(x) / sum(exp(x))`` along the last axis.

    Args:
        x: any float type and shape.

    Returns:
        The shape and type of ``x``; computed in float32, as its gradient is.
    """
    return cast("jax.Array", _softmax(x))


def rms_norm(x: jax.Array, weight: jax.Array, *, epsilon: float = 1e-5) -> jax.Array:
    """``x / sqrt(mean(x ** 2) + epsilon) * weight`` along the last axis.

    Args:
        x: any float type and shape.
        weight: any float type, shape ``x.shape[-1:]``.
        epsilon: added to the mean of squares.

    Returns:
        The shape and type of ``x``; computed in float32.
    """
    return cast("jax.Array", _rms_norm(epsilon, x, weight))


def layer_norm(x: jax.Array, weight: jax.Array, bias: jax.Array, *, epsilon: float = 1e-5) -> jax.Array:
    """``(x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias`` along the last axis.

    Args:
        x: any float type and shape.
        weight: any float type, shape ``x.shape[-1:]``.
        bias: as ``weight``.
        epsilon: added to the variance.

    Returns:
        The shape and type of ``x``; computed in float32.
    """
    return cast("jax.Array", _layer_norm(epsilon, x, weight, bias))


@jax.custom_vjp
def _softmax(x: jax.Array) -> Any:
    return _run("softmax", softmax_kernel, x, ())


def _softmax_forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    out = cast("jax.Array", _softmax(x))
    return out, out


def _softmax_backward(out: jax.Array, d_out: jax.Array) -> tuple[jax.Array]:
    (d_x,) = rows_backward.run(rows_backward.softmax_backward_kernel, (d_out, out), None, 0, _warps(8, out))
    return (d_x,)


_softmax.defvjp(_softmax_forward, _softmax_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _rms_norm(epsilon: float, x: jax.Array, weight: jax.Array) -> Any:
    return _run("rms_norm", rms_norm_kernel, x, (weight,), epsilon=epsilon)


def _rms_norm_forward(epsilon: float, x: jax.Array, weight: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    out = cast("jax.Array", _rms_norm(epsilon, x, weight))
    return out, (x, weight)


def _rms_norm_backward(epsilon: float, kept: tuple[jax.Array, ...], d_out: jax.Array) -> tuple[jax.Array, ...]:
    x, weight = kept
    d_x, d_weight = _norm_backward(rows_backward.rms_norm_backward_kernel, d_out, x, weight, 1, epsilon)
    return d_x, d_weight.astype(weight.dtype)


_rms_norm.defvjp(_rms_norm_forward, _rms_norm_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _layer_norm(epsilon: float, x: jax.Array, weight: jax.Array, bias: jax.Array) -> Any:
    return _run("layer_norm", layer_norm_kernel, x, (weight, bias), epsilon=epsilon)


def _layer_norm_forward(
    epsilon: float, x: jax.Array, weight: jax.Array, bias: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    out = cast("jax.Array", _layer_norm(epsilon, x, weight, bias))
    return out, (x, weight, bias)


def _layer_norm_backward(epsilon: float, kept: tuple[jax.Array, ...], d_out: jax.Array) -> tuple[jax.Array, ...]:
    x, weight, bias = kept
    kernel = rows_backward.layer_norm_backward_kernel
    d_x, d_weight, d_bias = _norm_backward(kernel, d_out, x, weight, 2, epsilon)
    return d_x, d_weight.astype(weight.dtype), d_bias.astype(bias.dtype)


_layer_norm.defvjp(_layer_norm_forward, _layer_norm_backward)


def _norm_backward(
    kernel: Callable[..., None], d_out: jax.Array, x: jax.Array, weight: jax.Array, sums: int, epsilon: float
) -> tuple[jax.Array, ...]:
    """The gradients of the rows and of as many parameters: on Hopper in one stream of rows."""
    way = choices(None, None)[0]
    if not way.interpret and way.backend == "mosaic_gpu" and x.ndim > 1 and _streams(way.capability, x):
        from typedpallas.kernels.gpu.rows_backward import MOST_COLUMNS, norm_backward

        if x.shape[-1] <= MOST_COLUMNS:
            return norm_backward(d_out, x, weight, sums, epsilon=epsilon)
    return rows_backward.run(kernel, (d_out, x), weight, sums, _warps(16, x), epsilon=epsilon)


def _warps(count: int, x: jax.Array) -> int | None:
    """Of a wide row on Triton."""
    return count if x.shape[-1] >= _WIDE else None


def _run(
    name: str, kernel: Callable[..., None], x: jax.Array, parameters: Sequence[jax.Array], **options: float
) -> jax.Array:
    if x.ndim == 0:
        raise tp.LaunchError(f"{name}: expected at least one axis, found shape {x.shape}")
    for parameter in parameters:
        if parameter.shape != x.shape[-1:]:
            raise tp.LaunchError(f"{name}: expected parameters of shape {x.shape[-1:]}, found {parameter.shape}")
    way = choices(None, None)[0]
    columns = x.shape[-1]
    backend: Backend | None = None
    if not way.interpret and way.backend == "mosaic_gpu":
        if name == "layer_norm" and x.dtype.itemsize == 4 and _streams(way.capability, x):  # there Triton is behind
            from typedpallas.kernels.gpu import rows

            work = functools.partial(getattr(rows, f"{name}_row"), *options.values())
            return rows.apply(work, x, parameters, None)
        backend = "triton"
    flat = x.reshape(-1, columns)
    warps = _WARPS[name] if backend == "triton" and columns >= _WIDE else None
    run = launch(kernel, len(parameters), tuple(options.items()), backend, warps)
    block = defaults.rows(flat.shape[0], columns, x.dtype.itemsize)
    result: jax.Array = run(flat, *(p.reshape(1, columns) for p in parameters), BR=block)
    return result.reshape(x.shape)


def _streams(capability: tuple[int, int] | None, x: jax.Array) -> bool:
    """Whether the Hopper kernel takes such rows."""
    from typedpallas.kernels.gpu import rows

    return capability is not None and capability[0] == 9 and rows.lines(x.shape[-1], x.dtype.itemsize) is not None
