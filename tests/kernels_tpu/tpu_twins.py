"""Some of the TPU kernels as a person writes them: plain JAX, no typedpallas."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

MASKED = -1e30
LOG2_E = math.log2(math.e)
BY_ROWS = (((1,), (1,)), ((), ()))


def matmul(x: Any, y: Any) -> Any:
    def kernel(x_ref, y_ref, out_ref, acc_ref):  # type: ignore[no-untyped-def]
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            acc_ref[...] = jnp.zeros((512, 512), jnp.float32)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == x.shape[1] // 512 - 1)
        def _() -> None:
            out_ref[...] = acc_ref[...].astype(out_ref.dtype)

    return _product(kernel, "matmul_kernel", jnp.float32, x.dtype, x, y)


def scaled_matmul(x: Any, y: Any, x_scale: Any, y_scale: Any) -> Any:
    def kernel(x_ref, y_ref, x_scale_ref, y_scale_ref, out_ref, acc_ref):  # type: ignore[no-untyped-def]
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            acc_ref[...] = jnp.zeros((512, 512), jnp.int32)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.int32)

        @pl.when(pl.program_id(2) == x.shape[1] // 512 - 1)
        def _() -> None:
            out_ref[...] = acc_ref[...].astype(jnp.float32) * x_scale_ref[...] * y_scale_ref[...]

    scales = (x_scale.reshape(-1, 1), y_scale.reshape(1, -1))
    return _product(kernel, "scaled_matmul_kernel", jnp.int32, jnp.float32, x, y, *scales)


def _product(kernel: Any, name: str, sums: Any, dtype: Any, x: Any, y: Any, *scales: Any) -> Any:
    (m, k), n = x.shape, y.shape[1]
    of_scales = [pl.BlockSpec((512, 1), lambda i, j, k: (i, 0)), pl.BlockSpec((1, 512), lambda i, j, k: (0, j))]
    return pl.pallas_call(
        kernel,
        (jax.ShapeDtypeStruct((m, n), dtype),),
        grid=(m // 512, n // 512, k // 512),
        in_specs=[
            pl.BlockSpec((512, 512), lambda i, j, k: (i, k)),
            pl.BlockSpec((512, 512), lambda i, j, k: (k, j)),
            *of_scales[: len(scales)],
        ],
        out_specs=[pl.BlockSpec((512, 512), lambda i, j, k: (i, j))],
        scratch_shapes=[pltpu.VMEM((512, 512), sums)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
        name=name,
    )(x, y, *scales)[0]


def attention(q: Any, k: Any, v: Any) -> Any:
    """Causal, one head of queries for each of keys, blocks of 256 queries and 512 keys."""
    batch, heads, length, dim = q.shape
    factor = dim**-0.5 * LOG2_E

    def kernel(q_ref, k_ref, v_ref, out_ref, lse_ref, highest_ref, total_ref, mean_ref):  # type: ignore[no-untyped-def]
        i, j = pl.program_id(3), pl.program_id(4)

        @pl.when(j == 0)
        def _() -> None:
            highest_ref[...] = jnp.full((256, 1), MASKED, jnp.float32)
            total_ref[...] = jnp.zeros((256, 1), jnp.float32)
            mean_ref[...] = jnp.zeros((256, dim), jnp.float32)

        def update(seen: Any) -> None:
            scores = lax.dot_general(q_ref[...], k_ref[...], BY_ROWS, preferred_element_type=jnp.float32) * factor
            if seen is not None:
                scores = jnp.where(seen, scores, MASKED)
            before = highest_ref[...]
            now = jnp.maximum(before, scores.max(axis=1, keepdims=True))
            shrink, weights = jnp.exp2(before - now), jnp.exp2(scores - now)
            highest_ref[...] = now
            total_ref[...] = total_ref[...] * shrink + weights.sum(axis=1, keepdims=True)
            added = jnp.dot(weights.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32)
            mean_ref[...] = mean_ref[...] * shrink + added

        first_query, first_key = i * 256, j * 512
        last_query, last_key = first_query + 255, first_key + 511
        some, every = first_key <= last_query, last_key <= first_query

        @pl.when(every)
        def _() -> None:
            update(None)

        @pl.when(some & ~every)
        def _() -> None:
            query = i * 256 + lax.broadcasted_iota(jnp.int32, (256, 512), 0)
            update(j * 512 + lax.broadcasted_iota(jnp.int32, (256, 512), 1) <= query)

        @pl.when(j == length // 512 - 1)
        def _() -> None:
            out_ref[...] = (mean_ref[...] / total_ref[...]).astype(out_ref.dtype)
            lse = highest_ref[...] * math.log(2) + jnp.log(total_ref[...])
            for start in (0, 128):
                part = lse[start : start + 128]
                row, column = (lax.broadcasted_iota(jnp.int32, (128, 128), axis) for axis in (0, 1))
                square = jnp.where(row == column, part, 0)
                lse_ref[:, start : start + 128] = square.sum(axis=0, keepdims=True)

    def keys(b: Any, h: Any, g: Any, i: Any, j: Any) -> Any:
        return b, h, jnp.minimum(j, jnp.minimum(lax.div((i + 1) * 256 - 1, 512), length // 512 - 1)), 0

    def queries(b: Any, h: Any, g: Any, i: Any, j: Any) -> Any:
        return b, h, g, i, 0

    of_queries = pl.BlockSpec((None, None, None, 256, dim), queries)
    of_sums = pl.BlockSpec((None, None, None, 1, 256), lambda b, h, g, i, j: (b, h, g, 0, i))
    of_keys = pl.BlockSpec((None, None, 512, dim), keys)
    grouped = (batch, heads, 1)
    return pl.pallas_call(
        kernel,
        (
            jax.ShapeDtypeStruct((*grouped, length, dim), q.dtype),
            jax.ShapeDtypeStruct((*grouped, 1, length), jnp.float32),
        ),
        grid=(batch, heads, 1, length // 256, length // 512),
        in_specs=[of_queries, of_keys, of_keys],
        out_specs=[of_queries, of_sums],
        scratch_shapes=[pltpu.VMEM((256, size), jnp.float32) for size in (1, 1, dim)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",) * 4 + ("arbitrary",)),
        name="attention_kernel",
    )(q.reshape(*grouped, length, dim), k, v)[0]
