"""Softmax and norms of long rows: ours, XLA and JAX's Triton kernels, beside a plain elementwise pass."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.gpu_timing import Entry, Problem
from typedpallas.kernels import rows as portable
from typedpallas.kernels.gpu import rows
from typedpallas.kernels.gpu.rows import RowTuning

SHAPE = (16384, 8192)
EPSILON = 1e-5
TOLERANCE = {"float32": 1e-5, "bfloat16": 5e-3}


def problems(key: jax.Array, quick: bool) -> Iterator[tuple[str, Callable[[], Problem]]]:
    """By name."""
    for what in ("copy", "softmax", "rms_norm", "layer_norm"):
        for dtype in (jnp.float32, jnp.bfloat16):
            name = f"{what} {jnp.dtype(dtype).name}"
            yield name, functools.partial(_problem, key, what, dtype, quick)


def _problem(key: jax.Array, what: str, dtype: Any, quick: bool) -> Problem:
    count = {"rms_norm": 1, "layer_norm": 2}.get(what, 0)
    shapes = (SHAPE, *[SHAPE[1:]] * count)
    arrays = tuple(
        jax.random.normal(jax.random.fold_in(key, i), shape, jnp.float32).astype(dtype)
        for i, shape in enumerate(shapes)
    )
    work = _WORK[what]
    ours = [Entry("default", _PUBLIC[what], "ours")]
    if not quick:
        ours += _every(what, work, jnp.dtype(dtype).itemsize, count)
    reference = functools.partial(_in_float32, _REFERENCE[what])
    vendor = Entry("XLA", lambda *xs: reference(*xs).astype(dtype), "vendor")
    return Problem(
        f"{what} {jnp.dtype(dtype).name} {SHAPE}",
        arrays,
        (vendor, *_shipped(what), *ours),
        reference,
        TOLERANCE[jnp.dtype(dtype).name],
        2.0 * arrays[0].nbytes,
        unit="GB/s",
    )


def _every(what: str, work: Any, itemsize: int, count: int) -> list[Entry]:
    """Every way that was tried."""
    streams = [Entry(_label(t), functools.partial(_ours, work, t), "ours") for t in _tunings(itemsize, count)]
    if what == "copy":
        return streams
    return streams + [
        Entry(f"Triton {warps} warps", functools.partial(_triton, what, warps), "ours") for warps in (4, 8, 16)
    ]


def _tunings(itemsize: int, parameters: int) -> list[RowTuning]:
    if itemsize == 4:
        return [RowTuning(1, 4, 2), RowTuning(1, 5, 1)]
    if parameters:
        return [RowTuning(1, 8, 4), RowTuning(1, 10, 2)]
    return [RowTuning(2, 5, 1), RowTuning(2, 3, 3), RowTuning(1, 8, 4)]


def _label(tuning: RowTuning) -> str:
    return f"{tuning.blocks} blocks, {tuning.stages} stages, {tuning.out_slots} results"


def _ours(work: Any, tuning: RowTuning, x: jax.Array, *parameters: jax.Array) -> jax.Array:
    return rows.apply(work, x, parameters, tuning)


def _triton(what: str, warps: int, x: jax.Array, *parameters: jax.Array) -> jax.Array:
    kernel = getattr(portable, f"{what}_kernel")
    options = () if what == "softmax" else (("epsilon", EPSILON),)
    run = portable.launch(kernel, len(parameters), options, "triton", warps)
    result: jax.Array = run(x, *(p.reshape(1, -1) for p in parameters), BR=1)
    return result


def _in_float32(function: Callable[..., jax.Array], *arrays: jax.Array) -> jax.Array:
    return function(*(x.astype(jnp.float32) for x in arrays))


def _rms_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPSILON) * weight


def _layer_norm(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    mean, variance = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + EPSILON) * weight + bias


_REFERENCE: dict[str, Callable[..., jax.Array]] = {
    "copy": lambda x: x * 2,
    "softmax": functools.partial(jax.nn.softmax, axis=-1),
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
}
_PUBLIC: dict[str, Callable[..., jax.Array]] = {
    "copy": lambda x: rows.apply(lambda row: row * 2, x, (), None),
    "softmax": portable.softmax,
    "rms_norm": functools.partial(portable.rms_norm, epsilon=EPSILON),
    "layer_norm": functools.partial(portable.layer_norm, epsilon=EPSILON),
}
_WORK: dict[str, Any] = {
    "copy": lambda x: x * 2,
    "softmax": rows.softmax_row,
    "rms_norm": functools.partial(rows.rms_norm_row, EPSILON),
    "layer_norm": functools.partial(rows.layer_norm_row, EPSILON),
}


def _shipped(what: str) -> Iterator[Entry]:
    """JAX's Triton kernels; its norms take weights and biases."""
    for warps in (4, 8):
        if what == "softmax":
            from jax.experimental.pallas.ops.gpu import softmax

            yield Entry(f"JAX's Triton {warps} warps", functools.partial(softmax.softmax, num_warps=warps), "jax")
        elif what == "layer_norm":
            from jax.experimental.pallas.ops.gpu import layer_norm

            run = functools.partial(_shipped_layer, layer_norm.layer_norm, warps)
            yield Entry(f"JAX's Triton {warps} warps", run, "jax")
        elif what == "rms_norm":
            from jax.experimental.pallas.ops.gpu import rms_norm

            run = functools.partial(_shipped_rms, rms_norm.rms_norm, warps)
            yield Entry(f"JAX's Triton {warps} warps (with a bias of zero)", run, "jax")


def _shipped_rms(run: Callable[..., jax.Array], warps: int, x: jax.Array, weight: jax.Array) -> jax.Array:
    return run(x[None], weight, jnp.zeros_like(weight), num_warps=warps, eps=EPSILON)[0]


def _shipped_layer(run: Callable[..., jax.Array], warps: int, x: jax.Array, *parameters: jax.Array) -> jax.Array:
    return run(x[None], *parameters, num_warps=warps, eps=EPSILON)[0]
