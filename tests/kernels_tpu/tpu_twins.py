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


def softmax(x: Any) -> Any:
    """Blocks of 128 rows."""

    def kernel(x_ref, out_ref):  # type: ignore[no-untyped-def]
        rows = x_ref[...].astype(jnp.float32) * LOG2_E
        weights = jnp.exp2(rows - _repeated(rows.max(axis=1), rows.shape))
        out_ref[...] = (weights * _repeated(1 / weights.sum(axis=1), rows.shape)).astype(out_ref.dtype)

    return _rows(kernel, "softmax_kernel", x)


def rms_norm(x: Any, weight: Any) -> Any:
    """Blocks of 128 rows."""

    def kernel(x_ref, weight_ref, out_ref):  # type: ignore[no-untyped-def]
        rows = x_ref[...].astype(jnp.float32)
        factor = lax.rsqrt((rows * rows).sum(axis=1) / x.shape[1] + 1e-5)
        normal = rows * _repeated(factor, rows.shape)
        scale = jnp.broadcast_to(weight_ref[...].astype(jnp.float32), rows.shape)
        out_ref[...] = (normal * scale).astype(out_ref.dtype)

    return _rows(kernel, "rms_norm_kernel", x, weight.reshape(1, -1))


def _repeated(column: Any, shape: Any) -> Any:
    return lax.broadcast_in_dim(column, shape, (0,))


def _rows(kernel: Any, name: str, x: Any, *parameters: Any) -> Any:
    count, width = x.shape
    block, whole = pl.BlockSpec((128, width), lambda i: (i, 0)), pl.BlockSpec((1, width), lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        (jax.ShapeDtypeStruct(x.shape, x.dtype),),
        grid=(count // 128,),
        in_specs=[block, *[whole] * len(parameters)],
        out_specs=[block],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name=name,
    )(x, *parameters)[0]


def grouped_matmul(x: Any, w: Any, sizes: Any) -> Any:
    """Tiles of 128 rows, 512 summed elements and 512 columns; a step for each group within each tile."""
    (rows, depth), (groups, _, columns) = x.shape, w.shape
    tiles = rows // 128
    steps = tiles + groups

    def kernel(tile_ref, group_ref, start_ref, end_ref, x_ref, w_ref, out_ref, acc_ref):  # type: ignore[no-untyped-def]
        step, k = pl.program_id(1), pl.program_id(2)

        @pl.when(k == 0)
        def _() -> None:
            acc_ref[...] = jnp.zeros((128, 512), jnp.float32)

        acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

        @pl.when(k == depth // 512 - 1)
        def _() -> None:
            row = tile_ref[step] * 128 + lax.broadcasted_iota(jnp.int32, (128, 512), 0)
            own = (row >= start_ref[step]) & (row < end_ref[step])
            new = (step == 0) | (tile_ref[jnp.maximum(step - 1, 0)] != tile_ref[step])

            @pl.when(new)
            def _() -> None:
                out_ref[...] = jnp.where(own, acc_ref[...], 0).astype(out_ref.dtype)

            @pl.when(~new)
            def _() -> None:
                kept = jnp.where(own, acc_ref[...], out_ref[...].astype(jnp.float32))
                out_ref[...] = kept.astype(out_ref.dtype)

    call = pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((rows, columns), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(columns // 512, steps, depth // 512),
            in_specs=[
                pl.BlockSpec((128, 512), lambda j, s, i, tiles, *_: (tiles[s], i)),
                pl.BlockSpec((None, 512, 512), lambda j, s, i, tiles, groups, *_: (groups[s], i, j)),
            ],
            out_specs=pl.BlockSpec((128, 512), lambda j, s, i, tiles, *_: (tiles[s], j)),
            scratch_shapes=[pltpu.VMEM((128, 512), jnp.float32)],
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary", "arbitrary")),
        name="grouped_matmul_kernel",
    )
    # Which step works on what is made before the kernel and no part of it.
    return call(*[jnp.zeros((steps,), jnp.int32)] * 4, x, w)
