"""The three kernels as a person writes them for each backend: plain JAX, no typedpallas."""

import functools
import math
import warnings

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from jax.experimental.pallas import triton as plt

MASKED = -1e30
Array = jax.Array


def _relu(x_ref, out_ref):  # type: ignore[no-untyped-def]
    out_ref[...] = jnp.maximum(x_ref[...] * 2 + 1, 0)


def _pallas_relu(x: Array, bm: int, bn: int, params: object) -> Array:
    spec = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
    grid = (x.shape[0] // bm, x.shape[1] // bn)
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(
        _relu, (out,), grid=grid, in_specs=[spec], out_specs=[spec], compiler_params=params, name="scaled_relu_kernel"
    )(x)[0]


def tpu_relu(x: Array, bm: int, bn: int) -> Array:
    return _pallas_relu(x, bm, bn, pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")))


def triton_relu(x: Array, bm: int, bn: int) -> Array:
    return _pallas_relu(x, bm, bn, plt.CompilerParams())


def gpu_relu(x: Array, bm: int, bn: int) -> Array:
    def scaled_relu_kernel(x_gmem, out_gmem, x_smem, out_smem, arrived):  # type: ignore[no-untyped-def]
        i, j = lax.axis_index("i"), lax.axis_index("j")
        plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(i * bm, bm), pl.ds(j * bn, bn)], x_smem, arrived)
        plgpu.barrier_wait(arrived)
        out_smem[...] = jnp.maximum(x_smem[...] * 2 + 1, 0)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(out_smem, out_gmem.at[pl.ds(i * bm, bm), pl.ds(j * bn, bn)])
        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        scaled_relu_kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // bm, x.shape[1] // bn),
        grid_names=("i", "j"),
        scratch_types=[plgpu.SMEM((bm, bn), x.dtype), plgpu.SMEM((bm, bn), x.dtype), plgpu.Barrier(num_arrivals=1)],
    )(x)


def tpu_matmul(x: Array, y: Array, bm: int, bk: int, bn: int) -> Array:
    (m, k), n = x.shape, y.shape[1]

    def kernel(x_ref, y_ref, out_ref, acc_ref):  # type: ignore[no-untyped-def]
        step = pl.program_id(2)

        @pl.when(step == 0)
        def _() -> None:
            acc_ref[...] = jnp.zeros(acc_ref.shape, acc_ref.dtype)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(step == k // bk - 1)
        def _() -> None:
            out_ref[...] = acc_ref[...].astype(out_ref.dtype)

    return pl.pallas_call(
        kernel,
        (jax.ShapeDtypeStruct((m, n), x.dtype),),
        grid=(m // bm, n // bn, k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=[pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))],
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
        name="matmul_kernel",
    )(x, y)[0]


def triton_matmul(x: Array, y: Array, bm: int, bk: int, bn: int) -> Array:
    (m, k), n = x.shape, y.shape[1]

    def kernel(x_ref, y_ref, out_ref):  # type: ignore[no-untyped-def]
        def step(i: Array, acc: Array) -> Array:
            a, b = x_ref.at[:, pl.ds(i * bk, bk)], y_ref.at[pl.ds(i * bk, bk), :]
            return acc + jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)

        acc = lax.fori_loop(0, k // bk, step, jnp.zeros((bm, bn), jnp.float32))
        out_ref[...] = acc.astype(out_ref.dtype)

    return pl.pallas_call(
        kernel,
        (jax.ShapeDtypeStruct((m, n), x.dtype),),
        grid=(m // bm, n // bn),
        in_specs=[pl.BlockSpec((bm, k), lambda i, j: (i, 0)), pl.BlockSpec((k, bn), lambda i, j: (0, j))],
        out_specs=[pl.BlockSpec((bm, bn), lambda i, j: (i, j))],
        compiler_params=plt.CompilerParams(),
        name="matmul_kernel",
    )(x, y)[0]


def gpu_matmul(x: Array, y: Array, bm: int, bk: int, bn: int) -> Array:
    (m, k), n = x.shape, y.shape[1]

    def matmul_kernel(x_gmem, y_gmem, out_gmem, out_smem):  # type: ignore[no-untyped-def]
        i, j = lax.axis_index("i"), lax.axis_index("j")

        @functools.partial(pl.run_scoped, acc=plgpu.ACC((bm, bn), jnp.float32))
        def _(acc) -> None:  # type: ignore[no-untyped-def]
            def step(_, x_smem, y_smem):  # type: ignore[no-untyped-def]
                plgpu.wgmma(acc, x_smem, y_smem)
                plgpu.wgmma_wait(0)

            plgpu.emit_pipeline(
                step,
                grid=(k // bk,),
                in_specs=[
                    plgpu.BlockSpec((bm, bk), lambda step: (i, step)),
                    plgpu.BlockSpec((bk, bn), lambda step: (step, j)),
                ],
                max_concurrent_steps=2,
            )(x_gmem, y_gmem)
            out_smem[...] = acc[...].astype(out_smem.dtype)

        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(out_smem, out_gmem.at[pl.ds(i * bm, bm), pl.ds(j * bn, bn)])
        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        matmul_kernel,
        out_type=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn),
        grid_names=("i", "j"),
        scratch_types=[plgpu.SMEM((bm, bn), x.dtype)],
    )(x, y)


def _update(scores, highest, total, mean, weigh):  # type: ignore[no-untyped-def]
    """One online softmax step on values; ``weigh`` multiplies the weights with the values."""
    now = jnp.maximum(highest, scores.max(axis=1))
    shrink = jnp.exp2(highest - now)
    weights = jnp.exp2(scores - lax.broadcast_in_dim(now, scores.shape, (0,)))
    sums = total * shrink + weights.sum(axis=1)
    return now, sums, mean * lax.broadcast_in_dim(shrink, mean.shape, (0,)) + weigh(weights)


def _start(bq: int, d: int):  # type: ignore[no-untyped-def]
    return jnp.full((bq,), MASKED, jnp.float32), jnp.zeros((bq,), jnp.float32), jnp.zeros((bq, d), jnp.float32)


def _factor(d: int) -> float:
    return float(d) ** -0.5 * math.log2(math.e)


_ROWS = (((1,), (1,)), ((), ()))


def tpu_flash(q: Array, k: Array, v: Array, bq: int, bk: int) -> Array:
    batch, heads, length, d = q.shape

    def kernel(q_ref, k_ref, v_ref, out_ref, highest_ref, total_ref, mean_ref):  # type: ignore[no-untyped-def]
        step = pl.program_id(3)
        highest, total = highest_ref.at[:, 0], total_ref.at[:, 0]

        @pl.when(step == 0)
        def _() -> None:
            highest[...] = jnp.full((bq,), MASKED, jnp.float32)
            total[...] = jnp.zeros((bq,), jnp.float32)
            mean_ref[...] = jnp.zeros((bq, d), jnp.float32)

        scores = lax.dot_general(q_ref[...], k_ref[...], _ROWS, preferred_element_type=jnp.float32) * _factor(d)
        before = highest[...]
        now = jnp.maximum(before, scores.max(axis=1))
        shrink = jnp.exp2(before - now)
        weights = jnp.exp2(scores - lax.broadcast_in_dim(now, scores.shape, (0,)))
        highest[...] = now
        total[...] = total[...] * shrink + weights.sum(axis=1)
        mean_ref[...] = mean_ref[...] * lax.broadcast_in_dim(shrink, mean_ref.shape, (0,)) + jnp.dot(
            weights.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32
        )

        @pl.when(step == k.shape[2] // bk - 1)
        def _() -> None:
            out = mean_ref[...] / lax.broadcast_in_dim(total[...], mean_ref.shape, (0,))
            out_ref[...] = out.astype(out_ref.dtype)

    queries = pl.BlockSpec((None, None, bq, d), lambda b, h, i, j: (b, h, i, 0))
    keys = pl.BlockSpec((None, None, bk, d), lambda b, h, i, j: (b, h, j, 0))
    return pl.pallas_call(
        kernel,
        (jax.ShapeDtypeStruct(q.shape, q.dtype),),
        grid=(batch, heads, length // bq, k.shape[2] // bk),
        in_specs=[queries, keys, keys],
        out_specs=[queries],
        scratch_shapes=[pltpu.VMEM(s, jnp.float32) for s in ((bq, 1), (bq, 1), (bq, d))],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")),
        name="flash_attention_kernel",
    )(q, k, v)[0]


def triton_flash(q: Array, k: Array, v: Array, bq: int, bk: int) -> Array:
    batch, heads, length, d = q.shape

    def kernel(q_ref, k_ref, v_ref, out_ref):  # type: ignore[no-untyped-def]
        def step(j, carry):  # type: ignore[no-untyped-def]
            keys, values = k_ref.at[pl.ds(j * bk, bk), :], v_ref.at[pl.ds(j * bk, bk), :]
            scores = lax.dot_general(q_ref[...], keys[...], _ROWS, preferred_element_type=jnp.float32) * _factor(d)

            def weigh(weights):  # type: ignore[no-untyped-def]
                return jnp.dot(weights.astype(v_ref.dtype), values[...], preferred_element_type=jnp.float32)

            return _update(scores, *carry, weigh)

        _, total, mean = lax.fori_loop(0, k.shape[2] // bk, step, _start(bq, d))
        out_ref[...] = (mean / lax.broadcast_in_dim(total, mean.shape, (0,))).astype(out_ref.dtype)

    queries = pl.BlockSpec((None, None, bq, d), lambda b, h, i: (b, h, i, 0))
    keys = pl.BlockSpec((None, None, k.shape[2], d), lambda b, h, i: (b, h, 0, 0))
    return pl.pallas_call(
        kernel,
        (jax.ShapeDtypeStruct(q.shape, q.dtype),),
        grid=(batch, heads, length // bq),
        in_specs=[queries, keys, keys],
        out_specs=[queries],
        compiler_params=plt.CompilerParams(),
        name="flash_attention_kernel",
    )(q, k, v)[0]


def gpu_flash(q: Array, k: Array, v: Array, bq: int, bk: int) -> Array:
    batch, heads, length, d = q.shape

    def product(left, right, columns: int):  # type: ignore[no-untyped-def]
        def run(acc):  # type: ignore[no-untyped-def]
            plgpu.wgmma(acc, left, right)
            plgpu.wgmma_wait(0)
            return acc[...]

        return pl.run_scoped(run, plgpu.ACC((bq, columns), jnp.float32))

    def flash_attention_kernel(q_gmem, k_gmem, v_gmem, out_gmem, q_smem, out_smem, arrived):  # type: ignore[no-untyped-def]
        b, h, i = lax.axis_index("b"), lax.axis_index("h"), lax.axis_index("i")
        plgpu.copy_gmem_to_smem(q_gmem.at[b, h, pl.ds(i * bq, bq), :], q_smem, arrived)
        plgpu.barrier_wait(arrived)

        def step(_, k_smem, v_smem, carry):  # type: ignore[no-untyped-def]
            scores = product(q_smem, k_smem.transpose((1, 0)), bk) * _factor(d)
            return _update(scores, *carry, lambda weights: product(weights.astype(v_smem.dtype), v_smem, d))

        keys = plgpu.BlockSpec((None, None, bk, d), lambda step: (b, h, step, 0))
        _, total, mean = plgpu.emit_pipeline(
            step,
            grid=(k.shape[2] // bk,),
            in_specs=[keys, keys],
            max_concurrent_steps=2,
            init_carry=_start(bq, d),
        )(k_gmem, v_gmem)
        out_smem[...] = (mean / lax.broadcast_in_dim(total, mean.shape, (0,))).astype(out_smem.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(out_smem, out_gmem.at[b, h, pl.ds(i * bq, bq), :])
        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        flash_attention_kernel,
        out_type=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid=(batch, heads, length // bq),
        grid_names=("b", "h", "i"),
        compiler_params=plgpu.CompilerParams(approx_math=True),
        scratch_types=[plgpu.SMEM((bq, d), q.dtype), plgpu.SMEM((bq, d), q.dtype), plgpu.Barrier()],
    )(q, k, v)
