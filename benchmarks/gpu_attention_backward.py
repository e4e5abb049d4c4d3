"""Attention, backward alone: ours in several configurations, cuDNN, XLA and the Pallas kernel that JAX ships.

Each competitor's forward pass runs before anything is timed; what it keeps is an argument of what is timed. Queries
come scaled, for one of JAX's kernels has no scale.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.gpu_timing import Entry, Problem
from typedpallas.kernels.gpu.attention_gradients import Options, differentiable_attention
from typedpallas.kernels.gpu.attention_tuning import BackwardTuning, backward_default

TOLERANCE = {"float16": 3e-3, "bfloat16": 2e-2}
SHAPES = (
    (2, 1024, 8, 2, 128),
    (2, 512, 4, 4, 64),
    (4, 4096, 16, 16, 128),
    (4, 4096, 16, 4, 64),
    (2, 16384, 16, 16, 128),
)
"""Batch, length, heads of queries, heads of keys, dims of a head."""


def problems(key: jax.Array, quick: bool) -> Iterator[tuple[str, Callable[[], Problem]]]:
    """By name."""
    for shape in SHAPES:
        for causal in (False, True):
            for dtype in (jnp.float16, jnp.bfloat16):
                sizes = ",".join(map(str, shape))
                name = f"backward {jnp.dtype(dtype).name} ({sizes}) {'causal' if causal else 'full'}"
                yield name, functools.partial(_problem, key, name, shape, causal, dtype, quick)


def _problem(key: jax.Array, name: str, shape: tuple[int, ...], causal: bool, dtype: Any, quick: bool) -> Problem:
    batch, length, heads, kv_heads, head_dim = shape
    sizes = [(batch, length, count, head_dim) for count in (heads, kv_heads, kv_heads, heads)]
    q, k, v, d_out = (
        jax.random.normal(jax.random.fold_in(key, i), size, jnp.float32) for i, size in enumerate(sizes)
    )
    arrays = tuple(x.astype(dtype) for x in (q * head_dim**-0.5, k, v, d_out))
    ours = (
        _entry(_label(t), functools.partial(_ours, t, causal), "ours")
        for t in configurations(arrays[0], arrays[1], causal, quick)
    )
    return Problem(
        name,
        arrays,
        (
            *_vendors(length, causal),
            *itertools.islice(_shipped(length, causal, heads // kv_heads, dtype), 0 if quick else None),
            *ours,
        ),
        functools.partial(_reference, causal),
        TOLERANCE[jnp.dtype(dtype).name],
        10.0 * batch * heads * length**2 * head_dim * (0.5 if causal else 1.0),
    )


def configurations(q: jax.Array, k: jax.Array, causal: bool, quick: bool) -> list[BackwardTuning]:
    """Those worth trying, the default first."""
    found = [backward_default(q, k)]
    if not quick:
        found += [replace(found[0], apart=not found[0].apart)] * (q.shape[2] > k.shape[2])
        found += [replace(found[0], turn=1 - found[0].turn)] * (not causal)
    return list(dict.fromkeys(found))


def _label(tuning: BackwardTuning) -> str:
    apart = ", heads apart" if tuning.apart else ""
    turn = f", turned by {tuning.turn}" if tuning.turn else ""
    return f"{tuning.groups}x{tuning.group_keys} keys, {tuning.block_q} queries, {tuning.stages} stages{apart}{turn}"


def _entry(name: str, forward: Callable[..., jax.Array], who: str) -> Entry:
    def prepare(q: jax.Array, k: jax.Array, v: jax.Array, d_out: jax.Array) -> tuple[Any, jax.Array]:
        return jax.jit(lambda *args: jax.vjp(forward, *args)[1])(q, k, v), d_out

    return Entry(name, lambda backward, d_out: backward(d_out), who, prepare)


def _ours(tuning: BackwardTuning, causal: bool, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return differentiable_attention(q, k, v, None, Options(causal=causal, scale=1.0, backward=tuning))[0]


def _reference(causal: bool, q: jax.Array, k: jax.Array, v: jax.Array, d_out: jax.Array) -> Any:
    """In float32, head by head, for the scores of all heads do not fit the memory."""
    shared = q.shape[2] // k.shape[2]
    wide = (q, jnp.repeat(k, shared, 2), jnp.repeat(v, shared, 2), d_out)
    flat = [jnp.moveaxis(x, 2, 1).reshape(-1, x.shape[1], x.shape[3]).astype(jnp.float32) for x in wide]
    dot = functools.partial(jnp.dot, precision="highest")

    def head(one: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        q, k, v, d_out = one
        scores = dot(q, k.T)
        if causal:
            row, column = (lax.broadcasted_iota(jnp.int32, scores.shape, axis) for axis in (0, 1))
            scores = jnp.where(column <= row, scores, -jnp.inf)
        weights = jax.nn.softmax(scores, axis=-1)
        d_weights = dot(d_out, v.T)
        d_scores = weights * (d_weights - (weights * d_weights).sum(axis=-1, keepdims=True))
        return dot(d_scores, k), dot(d_scores.T, q), dot(weights.T, d_out)

    d_q, d_k, d_v = (
        jnp.moveaxis(x.reshape(q.shape[0], q.shape[2], q.shape[1], q.shape[3]), 1, 2)
        for x in lax.map(head, tuple(flat))
    )
    return d_q, *(x.reshape(*k.shape[:3], shared, k.shape[3]).sum(axis=3) for x in (d_k, d_v))


def _vendors(length: int, causal: bool) -> Iterator[Entry]:
    def dot_product(kind: str, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(q, k, v, scale=1.0, is_causal=causal, implementation=kind)

    yield _entry("cuDNN", functools.partial(dot_product, "cudnn"), "vendor")
    if length <= 1024:
        yield _entry("XLA", functools.partial(dot_product, "xla"), "vendor")


def _shipped(length: int, causal: bool, shared: int, dtype: Any) -> Iterator[Entry]:
    """JAX's Mosaic GPU kernel, which refuses bfloat16 and causal masks."""
    if causal or shared > 1 or dtype != jnp.float16:
        return
    from jax.experimental.pallas.ops.gpu import attention_mgpu

    config = attention_mgpu.TuningConfig(
        block_q=64,
        block_kv=64,
        max_concurrent_steps=2,
        block_q_dkv=64,
        block_kv_dkv=64,
        block_q_dq=64,
        block_kv_dq=64,
    )
    yield _entry("JAX's Mosaic GPU 64", functools.partial(attention_mgpu.attention, config=config), "jax")
