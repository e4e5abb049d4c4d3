"""Attention, forward: ours in several configurations, cuDNN, XLA and the Pallas kernels that JAX ships.

Queries come scaled, for one of JAX's kernels has no scale.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.gpu_timing import Entry, Problem
from typedpallas.kernels.gpu.attention import attention
from typedpallas.kernels.gpu.attention_tuning import AttentionTuning, default

TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2}
SHAPES = ((4, 4096, 16, 128), (2, 16384, 16, 128), (2, 512, 4, 64))


def problems(key: jax.Array, quick: bool) -> Iterator[tuple[str, Callable[[], Problem]]]:
    """By name."""
    for shape in SHAPES:
        for causal in (False, True):
            for dtype in (jnp.float16, jnp.bfloat16):
                sizes = ",".join(map(str, shape))
                name = f"attention {jnp.dtype(dtype).name} ({sizes}) {'causal' if causal else 'full'}"
                yield name, functools.partial(_problem, key, name, shape, causal, dtype, quick)


def _problem(key: jax.Array, name: str, shape: tuple[int, ...], causal: bool, dtype: Any, quick: bool) -> Problem:
    batch, length, heads, head_dim = shape
    q, k, v = (jax.random.normal(jax.random.fold_in(key, i), shape, jnp.float32) for i in range(3))
    arrays = tuple(x.astype(dtype) for x in (q * head_dim**-0.5, k, v))
    ours = (
        Entry(_label(t), functools.partial(_ours, t, causal), "ours")
        for t in configurations(length, head_dim, causal, quick)
    )
    return Problem(
        name,
        arrays,
        (*_vendors(length, causal), *_shipped(length, causal, dtype, quick), *ours),
        functools.partial(_reference, causal),
        TOLERANCE[jnp.dtype(dtype).name],
        4.0 * batch * heads * length**2 * head_dim * (0.5 if causal else 1.0),
        chain=8 if length <= 1024 else 1,
    )


def configurations(length: int, head_dim: int, causal: bool, quick: bool) -> list[AttentionTuning]:
    """Those worth trying, the default first."""
    found = [default(length, length, head_dim, causal)]
    if not quick:
        found += [
            AttentionTuning(),
            AttentionTuning(take_turns=False),
            *([] if causal else [AttentionTuning(paired=True), AttentionTuning(paired=True, take_turns=False)]),
            AttentionTuning(block_k=64, stages=4),
            AttentionTuning(block_k=64, stages=4, take_turns=False),
            AttentionTuning(groups=1),
            AttentionTuning(groups=1, block_k=64, stages=4),
            AttentionTuning(groups=3, stages=3, block_k=64),
            AttentionTuning(groups=3, stages=2, block_k=128),
        ]
    return [
        t
        for t in dict.fromkeys(found)
        if length % (t.tile * (1 + t.paired)) == 0 and (t.groups < 3 or t.block_k <= 64 or head_dim <= 64)
    ]


def _label(tuning: AttentionTuning) -> str:
    turns = "" if tuning.take_turns else ", no turns"
    return f"{tuning.groups}x{tuning.block_q} queries, {tuning.block_k} keys, {tuning.stages} stages{turns}"


def _ours(tuning: AttentionTuning, causal: bool, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return attention(q, k, v, causal=causal, scale=1.0, tuning=tuning)[0]


def _reference(causal: bool, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """In float32, head by head, for the scores of all heads do not fit the memory."""
    flat = [jnp.moveaxis(x, 2, 1).reshape(-1, x.shape[1], x.shape[3]).astype(jnp.float32) for x in (q, k, v)]

    def head(one: Any) -> jax.Array:
        q, k, v = one
        scores = jnp.dot(q, k.T, precision="highest")
        if causal:
            row, column = (lax.broadcasted_iota(jnp.int32, scores.shape, axis) for axis in (0, 1))
            scores = jnp.where(column <= row, scores, -jnp.inf)
        return jnp.dot(jax.nn.softmax(scores, axis=-1), v, precision="highest")

    out = lax.map(head, tuple(flat))
    return jnp.moveaxis(out.reshape(q.shape[0], q.shape[2], q.shape[1], q.shape[3]), 1, 2)


def _vendors(length: int, causal: bool) -> Iterator[Entry]:
    def dot_product(kind: str, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(q, k, v, scale=1.0, is_causal=causal, implementation=kind)

    yield Entry("cuDNN", functools.partial(dot_product, "cudnn"), "vendor")
    if length <= 1024:
        yield Entry("XLA", functools.partial(dot_product, "xla"), "vendor")


def _shipped(length: int, causal: bool, dtype: Any, quick: bool) -> Iterator[Entry]:
    """JAX's Mosaic GPU kernel, which refuses bfloat16, and its Triton kernel, which is far behind at length."""
    if dtype == jnp.float16:
        from jax.experimental.pallas.ops.gpu import attention_mgpu

        for block_q, block_kv, steps in ((64, 128, 2), (64, 64, 4), (64, 256, 2))[: 1 if quick else None]:
            if length < block_kv * steps:
                continue
            config = attention_mgpu.TuningConfig(
                block_q=block_q, block_kv=block_kv, max_concurrent_steps=steps, causal=causal
            )
            run = functools.partial(attention_mgpu.attention, config=config)
            yield Entry(f"JAX's Mosaic GPU {block_q}, {block_kv}, {steps} steps", run, "jax")
    if quick and length > 1024:
        return
    from jax.experimental.pallas.ops.gpu import attention as triton

    for block_q, block_k, warps in ((128, 64, 4), (128, 128, 8)):
        sizes = triton.BlockSizes(block_q=block_q, block_k=block_k)
        run = functools.partial(
            triton.mha,
            segment_ids=None,
            sm_scale=1.0,
            causal=causal,
            block_sizes=sizes,
            num_warps=warps,
            num_stages=2,
        )
        yield Entry(f"JAX's Triton {block_q}, {block_k}, {warps} warps", run, "jax")
