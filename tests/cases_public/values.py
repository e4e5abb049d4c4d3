"""Shapes and element types of what a kernel computes."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from cases_public.registry import ANY, H100, V4, V5E, S, Side, bf16, case, f32, i8, i32


@case("jax-ml/jax#30861", V5E, "shape-mismatch", S(16, 64), S(16, 128), reference=lambda a, n: a / n[:, :1])
def head_dim_below_the_lanes(side: Side) -> Any:
    """Row statistics, 128 lanes wide, are repeated `head_dim // 128` times: never, for 64."""

    def tiled(acc, norm, o):
        o[...] = acc[...] / jnp.tile(norm[...], (1, acc.shape[1] // 128))

    def broadcast(acc, norm, o):
        o[...] = acc[...] / jnp.broadcast_to(norm[:, 0:1], acc.shape)

    return pl.pallas_call(tiled if side == "bad" else broadcast, out_shape=S(16, 64))


@case("jax-ml/jax#22304", ANY, "alias-mismatch", S(8, 128), S(8, 128), reference=lambda acc, x: acc + x)
def alias_of_two_types(side: Side) -> Any:
    """A f32 accumulator is updated in place into a bf16 result."""

    def kernel(acc, x, o):
        o[...] = (acc[...] + x[...]).astype(o.dtype)

    out = S(8, 128, dtype=bf16 if side == "bad" else f32)
    return pl.pallas_call(kernel, out_shape=out, input_output_aliases={0: 0})


@case(
    "marin-community/marin#2948",
    ANY,
    "dtype-mismatch",
    S(16, 128, dtype=bf16),
    reference=lambda x: (x * x).astype(f32),
    tolerance=1e-2,
)
def bf16_value_into_a_f32_ref(side: Side) -> Any:
    """The tests ran in f32; the bf16 configuration stores without a cast."""

    def kernel(x, o):
        product = x[...] * x[...]
        o[...] = product if side == "bad" else product.astype(o.dtype)

    return pl.pallas_call(kernel, out_shape=S(16, 128))


@case("jax-ml/jax#18847", H100, "int64-in-kernel", S(16), reference=lambda x: jnp.argmax(x).astype(i32), x64=True)
def argmax_with_64_bits(side: Side) -> Any:
    """`jnp.argmax` returns the default integer, which is 64 bits wide under x64."""

    def kernel(x, o):
        o[...] = jnp.argmax(x[...]) if side == "bad" else jax.lax.argmax(x[...], 0, i32)

    return pl.pallas_call(kernel, out_shape=S(dtype=jnp.int64 if side == "bad" else i32))


@case(
    "pytorch/helion#3600",
    V5E,
    "int64-in-kernel",
    S(dtype=jnp.int64),
    S(32, 128),
    reference=lambda n, x: x + 1.0,
    inputs=(4, jnp.zeros((32, 128), f32)),
    x64=True,
)
def grid_bound_with_64_bits(side: Side) -> Any:
    """The number of grid steps is a 64-bit scalar of the enclosing function."""

    def kernel(x, o):
        o[...] = x[...] + 1.0

    def run(steps, x):
        spec = pl.BlockSpec((8, 128), lambda i: (i, jnp.int32(0)))
        bound = steps.astype(jnp.int64 if side == "bad" else i32)
        return pl.pallas_call(kernel, out_shape=S(32, 128), grid=(bound,), in_specs=[spec], out_specs=spec)(x)

    return run


@case(
    "jax-ml/jax#22204",
    V5E,
    "clean",
    S(32, 128, dtype=i8),
    S(32, 128, dtype=i8),
    reference=lambda a, b: a.astype(i32) + b,
)
def int8_of_rank_one(side: Side) -> Any:
    """Eight int8 elements of rank 1: once without a layout, taken today."""

    def kernel(a, b, o):
        o[...] = a[...].astype(i32) + b[...].astype(i32)

    if side == "good":
        return pl.pallas_call(kernel, out_shape=S(32, 128, dtype=i32))
    run = pl.pallas_call(kernel, out_shape=S(8, dtype=i32))
    return lambda a, b: run(a[0, :8], b[0, :8])


def _normed(x: jax.Array, w: jax.Array) -> jax.Array:
    wide = x.astype(f32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, 1, keepdims=True) + 1e-5) * w.astype(f32)).astype(bf16)


@case(
    "jax-ml/jax#30391",
    V5E,
    "clean",
    S(16, 128, dtype=bf16),
    S(1, 128, dtype=bf16),
    reference=_normed,
    tolerance=6e-2,
)
def bf16_norm_on_an_old_chip(side: Side) -> Any:
    """`rsqrt` of bf16 was refused on old chips; today's compiler widens it itself."""

    def kernel(x, w, o):
        v = x[...] if side == "bad" else x[...].astype(f32)
        mean = jnp.mean(v * v, axis=1, keepdims=True)
        o[...] = (v * jax.lax.rsqrt(mean + 1e-5) * w[...].astype(v.dtype)).astype(o.dtype)

    return pl.pallas_call(kernel, out_shape=S(16, 128, dtype=bf16))


@case(
    "jax-ml/jax#20239",
    H100,
    "dtype-not-on-target",
    S(8, 16, dtype=bf16),
    S(8, 16, dtype=bf16),
    reference=lambda a, b: (a.astype(f32) / b.astype(f32)).astype(bf16),
    inputs=(jnp.full((8, 16), 1.5, bf16), jnp.full((8, 16), 1.25, bf16)),
    tolerance=1e-2,
)
def bf16_division_in_triton(side: Side) -> Any:
    """Triton's division has no bf16."""

    def kernel(a, b, o):
        if side == "bad":
            o[...] = a[...] / b[...]
        else:
            o[...] = (a[...].astype(f32) / b[...].astype(f32)).astype(o.dtype)

    return pl.pallas_call(kernel, out_shape=S(8, 16, dtype=bf16))


@case(
    "jax-ml/jax#37367",
    V4,
    "matmul-not-on-target",
    S(128, 128, dtype=i8),
    S(128, 128, dtype=i8),
    reference=lambda a, b: jnp.dot(a.astype(i32), b.astype(i32)),
)
def int8_product_on_v4(side: Side) -> Any:
    """v4's matrix unit takes no int8 operands; v5e's does."""

    def kernel(a, b, o):
        if side == "bad":
            o[...] = jnp.dot(a[...], b[...], preferred_element_type=i32)
        else:
            wide = jnp.dot(a[...].astype(bf16), b[...].astype(bf16), preferred_element_type=f32)
            o[...] = wide.astype(i32)

    return pl.pallas_call(kernel, out_shape=S(128, 128, dtype=i32))


@case(
    "jax-ml/jax#21408",
    V5E,
    "matmul-not-on-target",
    S(128, 128, dtype=bf16),
    S(128, 128, dtype=bf16),
    reference=lambda a, b: jnp.dot(a, b, preferred_element_type=f32),
    tolerance=1e-2,
)
def highest_precision_of_bf16(side: Side) -> Any:
    """A precision set for the whole program meets bf16 operands."""
    precision = jax.lax.Precision.HIGHEST if side == "bad" else None

    def kernel(a, b, o):
        o[...] = jnp.dot(a[...], b[...], precision=precision, preferred_element_type=f32)

    return pl.pallas_call(kernel, out_shape=S(128, 128))


@case("jax-ml/jax#20051", H100, "clean", S(32, 32), S(32, 1), reference=jnp.dot, tolerance=1e-4)
def product_with_one_column(side: Side) -> Any:
    """A product with a dim below 16: once refused, taken by today's Triton lowering."""

    def kernel(a, b, o):
        if side == "bad":
            o[...] = jnp.dot(a[...], b[...])
        else:
            o[...] = jnp.sum(a[...] * jnp.reshape(b[...], (1, 32)), axis=1).reshape(32, 1)

    return pl.pallas_call(kernel, out_shape=S(32, 1))


@case(
    "jax-ml/jax#19453",
    H100,
    "matmul-not-on-target",
    S(32, 32),
    S(32, 32, dtype=bf16),
    reference=lambda p, v: jnp.dot(p.astype(bf16), v, preferred_element_type=f32),
    tolerance=1e-2,
)
def product_of_two_types_in_triton(side: Side) -> Any:
    """The softmax stays in f32 and meets bf16 values."""

    def kernel(p, v, o):
        left = p[...] if side == "bad" else p[...].astype(v.dtype)
        o[...] = jax.lax.dot_general(left, v[...], (((1,), (0,)), ((), ())), preferred_element_type=f32)

    return pl.pallas_call(kernel, out_shape=S(32, 32))


@case("jax-ml/jax#24142", H100, "matmul-not-on-target", S(64), S(64, 32), reference=jnp.matmul, tolerance=1e-4)
def vector_times_matrix_in_triton(side: Side) -> Any:
    """`jnp.matmul` with a left operand of rank 1: lowered today, and refused behind the lowering."""

    def kernel(v, m, o):
        o[...] = jnp.matmul(v[...], m[...]) if side == "bad" else jnp.sum(v[...][:, None] * m[...], axis=0)

    return pl.pallas_call(kernel, out_shape=S(32))


_K = 64


@case(
    "pytorch/helion#2141",
    V5E,
    "narrow-accumulator",
    S(16, 128 * _K, dtype=bf16),
    S(128 * _K, 128, dtype=bf16),
    reference=lambda a, b: jnp.dot(a, b, preferred_element_type=f32),
    tolerance=1e-2,
)
def partial_sums_through_bf16(side: Side) -> Any:
    """Each partial product is rounded to bf16 before it is added in f32."""

    def kernel(a, b, o):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o[...] = jnp.zeros_like(o)

        part = jnp.dot(a[...], b[...], preferred_element_type=f32)
        if side == "bad":
            part = part.astype(bf16)
        o[...] += part.astype(f32)

    return pl.pallas_call(
        kernel,
        out_shape=S(16, 128),
        grid=(_K,),
        in_specs=[pl.BlockSpec((16, 128), lambda k: (0, k)), pl.BlockSpec((128, 128), lambda k: (k, 0))],
        out_specs=pl.BlockSpec((16, 128), lambda k: (0, 0)),
    )


@case("jax-ml/jax#24464", V5E, "clean", S(4, dtype=jnp.bool_), reference=jnp.logical_not)
def boolean_constant(side: Side) -> Any:
    """A loaded mask meets a constant one: layouts differed once."""

    def kernel(x, o):
        if side == "bad":
            o[...] = jnp.logical_xor(x[...], jnp.full((4,), True))
        else:
            o[...] = (x[...].astype(i32) ^ 1) != 0

    return pl.pallas_call(kernel, out_shape=S(4, dtype=jnp.bool_))


@case("jax-ml/jax#24243", V5E, "clean", S(2, dtype=jnp.bool_), reference=jnp.logical_not)
def boolean_not(side: Side) -> Any:
    """`logical_not` of a block of booleans, once without a layout."""

    def kernel(x, o):
        o[...] = jnp.logical_not(x[...]) if side == "bad" else x[...].astype(i32) == 0

    return pl.pallas_call(kernel, out_shape=S(2, dtype=jnp.bool_))


@case(
    "marin-community/marin#2613",
    V4,
    "primitive-not-on-target",
    S(8, 128, dtype=i32),
    S(8, 128),
    reference=lambda rows, x: jnp.take_along_axis(x, rows, 0),
)
def gather_along_sublanes_on_v4(side: Side) -> Any:
    """A lookup of rows: v4's core cannot gather along sublanes, v5e's can."""

    def kernel(rows, x, o):
        if side == "bad":
            o[...] = jnp.take_along_axis(x[...], rows[...], axis=0)
            return
        found = jnp.zeros((8, 128), f32)
        for row in range(8):
            found = jnp.where(rows[...] == row, x[row : row + 1, :], found)
        o[...] = found

    return pl.pallas_call(kernel, out_shape=S(8, 128))


@case("jax-ml/jax#21999", V5E, "clean", S(11, 11, 128), reference=lambda x: x.reshape(121, 128))
def merge_of_two_odd_dims(side: Side) -> Any:
    """Two dims of 11 are merged into the sublanes: once refused, taken today."""

    def inside(x, o):
        o[...] = x[...].reshape(121, 128)

    def copied(x, o):
        o[...] = x[...]

    run = pl.pallas_call(inside if side == "bad" else copied, out_shape=S(121, 128))
    return run if side == "bad" else lambda x: run(x.reshape(121, 128))


@case(
    "pytorch/helion#3086",
    V5E,
    "unaligned-slice",
    S(1, dtype=i32),
    S(8, 256),
    reference=lambda i, x: x + x[2, i[0]],
    inputs=(jnp.array([201], i32), jnp.arange(2048, dtype=f32).reshape(8, 256)),
)
def lane_chosen_at_run_time(side: Side) -> Any:
    """One element at a lane that is known only when the kernel runs."""

    def kernel(i, x, o):
        if side == "bad":
            o[...] = x[...] + x[2, i[0]]
            return
        lane = jax.lax.broadcasted_iota(i32, (1, 256), 1)
        chosen = jnp.sum(jnp.where(lane == i[0], x[2:3, :], 0.0), axis=1, keepdims=True)
        o[...] = x[...] + chosen

    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)]
    return pl.pallas_call(kernel, out_shape=S(8, 256), in_specs=specs)
