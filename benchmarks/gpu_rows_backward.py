"""Gradients of softmax and norms of long rows: ours in several configurations, XLA and JAX's Triton kernels.

What the forward pass keeps is there before anything is timed. XLA keeps what it wants to keep.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.gpu_rows import EPSILON, SHAPE
from benchmarks.gpu_timing import Entry, Problem
from typedpallas.kernels import rows as portable
from typedpallas.kernels import rows_backward as ours
from typedpallas.kernels.gpu.rows_backward import RowBackwardTuning, norm_backward

TOLERANCE = {"float32": 1e-5, "bfloat16": 8e-3}
KERNELS = {
    "softmax": (ours.softmax_backward_kernel, 0),
    "rms_norm": (ours.rms_norm_backward_kernel, 1),
    "layer_norm": (ours.layer_norm_backward_kernel, 2),
}


def problems(key: jax.Array, quick: bool) -> Iterator[tuple[str, Callable[[], Problem]]]:
    """By name."""
    for what in KERNELS:
        for dtype in (jnp.float32, jnp.bfloat16):
            name = f"backward {what} {jnp.dtype(dtype).name}"
            yield name, functools.partial(_problem, key, name, what, dtype, quick)


def _problem(key: jax.Array, name: str, what: str, dtype: Any, quick: bool) -> Problem:
    count = KERNELS[what][1]
    shapes = [SHAPE, *[SHAPE[1:]] * count, SHAPE]
    arrays = tuple(
        jax.random.normal(jax.random.fold_in(key, i), shape, jnp.float32).astype(dtype)
        for i, shape in enumerate(shapes)
    )
    forward = _FORWARD[what]
    xla = [Entry("XLA", _run_backward, "vendor", functools.partial(_kept, forward))]
    if what != "softmax":
        again = functools.partial(_again, forward)
        xla.append(Entry("XLA, statistics made anew", again, "vendor"))
    entries = [Entry("default", functools.partial(_default, what), "ours", _prepared(what))]
    if not quick:
        entries += _every(what, count, jnp.dtype(dtype).itemsize)
    size = SHAPE[0] * SHAPE[1] * jnp.dtype(dtype).itemsize
    reference = functools.partial(_wide, forward)
    entries += _shipped(what)
    return Problem(name, arrays, (*xla, *entries), reference, TOLERANCE[jnp.dtype(dtype).name], 3.0 * size, "GB/s")


def _every(what: str, count: int, itemsize: int) -> list[Entry]:
    """Every way that was tried."""
    ways = itertools.product((32, 16, 8), (132, 256, 512)) if count else ((8, 1),)
    entries = [
        Entry(
            f"Triton {warps} warps, {n} programs", functools.partial(_triton, what, warps, n), "ours", _prepared(what)
        )
        for warps, n in ways
    ]
    tunings = ((1, 2), (1, 4), (2, 4)) if itemsize <= 2 else ((1, 2),)
    return entries + [
        Entry(f"{groups} warpgroups, {stages} stages", functools.partial(_stream, count, groups, stages), "ours")
        for groups, stages in tunings * bool(count)
    ]


def _kept(forward: Callable[..., jax.Array], *arrays: jax.Array) -> tuple[Any, jax.Array]:
    return jax.jit(lambda *args: jax.vjp(forward, *args)[1])(*arrays[:-1]), arrays[-1]


def _again(forward: Callable[..., jax.Array], *arrays: jax.Array) -> Any:
    return jax.vjp(forward, *arrays[:-1])[1](arrays[-1])


def _wide(forward: Callable[..., jax.Array], *arrays: jax.Array) -> Any:
    return _again(forward, *(x.astype(jnp.float32) for x in arrays))


def _prepared(what: str) -> Callable[..., tuple[Any, ...]] | None:
    """Softmax keeps its result; norms keep what they were given."""
    if what != "softmax":
        return None
    return lambda x, d_out: (jax.jit(jax.nn.softmax)(x.astype(jnp.float32)).astype(x.dtype), d_out)


def _default(what: str, x: jax.Array, *rest: jax.Array) -> Any:
    """The gradient of the public function; softmax needs nothing but its result."""
    if what == "softmax":
        return ours.run(ours.softmax_backward_kernel, (rest[-1], x), None, 0, 8)
    public = functools.partial(getattr(portable, what), epsilon=EPSILON)
    return jax.vjp(public, x, *rest[:-1])[1](rest[-1])


def _triton(what: str, warps: int, programs: int, x: jax.Array, *rest: jax.Array) -> tuple[jax.Array, ...]:
    kernel, count = KERNELS[what]
    weight = rest[0] if count else None
    options = {"epsilon": EPSILON} if count else {}
    d_x, *sums = ours.run(kernel, (rest[-1], x), weight, count, warps, programs, **options)
    return d_x, *(part.astype(rest[0].dtype) for part in sums)


def _stream(count: int, groups: int, stages: int, x: jax.Array, *rest: jax.Array) -> tuple[jax.Array, ...]:
    tuning = RowBackwardTuning(groups, stages)
    d_x, *sums = norm_backward(rest[-1], x, rest[0], count, epsilon=EPSILON, tuning=tuning)
    return d_x, *(part.astype(rest[0].dtype) for part in sums)


def _shipped(what: str) -> Iterator[Entry]:
    """JAX's Triton kernels of norms; that of the root mean square takes a bias too, here of zeros."""
    if what == "layer_norm":
        from jax.experimental.pallas.ops.gpu import layer_norm

        def run(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
            return layer_norm.layer_norm(x[None], weight, bias, num_warps=8, eps=EPSILON)[0]

        yield Entry("JAX's Triton 8 warps", _run_backward, "jax", functools.partial(_kept, run))
    elif what == "rms_norm":
        from jax.experimental.pallas.ops.gpu import rms_norm

        def run_rms(x: jax.Array, weight: jax.Array) -> jax.Array:
            return rms_norm.rms_norm(x[None], weight, jnp.zeros_like(weight), num_warps=8, eps=EPSILON)[0]

        yield Entry("JAX's Triton 8 warps", _run_backward, "jax", functools.partial(_kept, run_rms))


def _run_backward(backward: Callable[..., Any], d_out: jax.Array) -> Any:
    return backward(d_out)


def _rms_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    scaled = wide * jax.lax.rsqrt((wide * wide).mean(axis=-1, keepdims=True) + EPSILON)
    return (scaled * weight.astype(jnp.float32)).astype(x.dtype)


def _layer_norm(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt((centred * centred).mean(axis=-1, keepdims=True) + EPSILON)
    return (scaled * weight.astype(jnp.float32) + bias.astype(jnp.float32)).astype(x.dtype)


_FORWARD: dict[str, Callable[..., jax.Array]] = {
    "softmax": functools.partial(jax.nn.softmax, axis=-1),
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
}
