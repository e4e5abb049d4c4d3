"""Matrix products of every pair of element types, with each kind of result: the rule against libtpu."""

import random
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl
from sweeps_common import Kernel, refusal, refuted, samples, verdicts

import typedpallas as tp

KINDS = (
    *("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"),
    *("int32", "int16", "int8", "int4", "uint8", "bool"),
)
RULES = {"matmul-not-on-target", "dtype-not-on-target"}


def _product(left: str, right: str, result: str, rows: int = 128) -> Kernel:
    def kernel(x: Any, y: Any, o: Any) -> None:
        o[...] = lax.dot_general(x[...], y[...], (((1,), (0,)), ((), ())), preferred_element_type=jnp.dtype(result))

    args = jax.ShapeDtypeStruct((rows, 128), left), jax.ShapeDtypeStruct((128, 128), right)
    run = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((rows, 128), result))
    return Kernel(f"{left} x {right} -> {result}, {rows} rows", run, args)


def _any(rng: random.Random) -> Kernel:
    return _product(rng.choice(KINDS), rng.choice(KINDS), rng.choice(("float32", "int32")), rng.choice((1, 8, 128)))


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v4", "tpu-v5e", "tpu-v6e", "tpu-7x"])
def test_products_are_refused_where_the_compiler_refuses_them(target: str) -> None:
    for kernel in samples(25, _any):
        said = refusal(kernel, target)
        found = refuted(verdicts(kernel, target)) & RULES
        assert bool(found) == bool(said), f"{kernel.words} on {target}: {found or 'passed'}; the compiler: {said}"


@pytest.mark.parametrize(
    ("left", "right", "result", "expected"),
    [
        ("int8", "bfloat16", "int32", "expected `f32` sums for `i8` and `bf16`, found `i32` ones"),
        ("int8", "int4", "int32", "expected integer operands of one type, found `i8` and `i4`"),
        ("int8", "int8", "float32", "expected `i32` sums for `i8`, found `f32` ones"),
        ("bfloat16", "bfloat16", "int32", "expected `f32` sums for `bf16`, found `i32` ones"),
        ("int8", "uint8", "int32", "found `u8`"),
    ],
)
def test_a_product_that_no_unit_has_is_told_in_its_own_words(
    left: str, right: str, result: str, expected: str
) -> None:
    kernel = _product(left, right, result)
    (said,) = [
        item for item in tp.check(kernel.run, *kernel.args, target="tpu-v5p").diagnostics if item.rule in RULES
    ]
    assert said.rule == "matmul-not-on-target" and expected in said.message
