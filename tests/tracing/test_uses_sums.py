"""Sums whose parts are rounded: what is reported, what is not, and what it costs."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp

STEPS = 64
f32, bf16 = jnp.float32, jnp.bfloat16
X, Y = jax.ShapeDtypeStruct((16, 128 * STEPS), bf16), jax.ShapeDtypeStruct((128 * STEPS, 128), bf16)
IN = [pl.BlockSpec((16, 128), lambda k: (0, k)), pl.BlockSpec((128, 128), lambda k: (k, 0))]


def _first(body: Any) -> None:
    pl.when(pl.program_id(0) == 0)(body)


def _launched(kernel: Any, dtype: Any = f32, scratch: Any = (), interpret: bool = False) -> Any:
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((16, 128), dtype),
        grid=(STEPS,),
        in_specs=IN,
        out_specs=pl.BlockSpec((16, 128), lambda k: (0, 0)),
        scratch_shapes=scratch,
        interpret=interpret,
    )


def _rounded(x: Any, y: Any, o: Any, *, rounded: bool = True) -> None:
    @_first
    def _() -> None:
        o[...] = jnp.zeros_like(o)

    part = jnp.dot(x[...], y[...], preferred_element_type=f32)
    o[...] += part.astype(bf16).astype(f32) if rounded else part


def _in_scratch(x: Any, y: Any, o: Any, acc: Any) -> None:
    @_first
    def _() -> None:
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=f32).astype(bf16)

    @pl.when(pl.program_id(0) == STEPS - 1)
    def _() -> None:
        o[...] = acc[...].astype(o.dtype)


def _at_the_end(x: Any, y: Any, o: Any, acc: Any) -> None:
    @_first
    def _() -> None:
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=f32)

    @pl.when(pl.program_id(0) == STEPS - 1)
    def _() -> None:
        o[...] = acc[...].astype(bf16).astype(o.dtype)


def _used_twice(x: Any, y: Any, o: Any) -> None:
    @_first
    def _() -> None:
        o[...] = jnp.zeros_like(o)

    part = jnp.dot(x[...], y[...], preferred_element_type=f32).astype(bf16)
    o[...] += part.astype(f32) * jnp.sum(part.astype(f32))


def _verdicts(run: Any) -> list[tuple[str, str]]:
    report = tp.check(run, X, Y, target="tpu-v5e")
    return [(item.rule, item.verdict) for item in report.diagnostics if item.rule == "narrow-accumulator"]


SCRATCH = [pltpu.VMEM((16, 128), f32)]


@pytest.mark.parametrize(
    ("run", "verdict"),
    [
        (_launched(_rounded), "refuted"),
        (_launched(functools.partial(_rounded, rounded=False)), ""),
        (_launched(_in_scratch, bf16, SCRATCH), "open"),
        (_launched(_at_the_end, f32, SCRATCH), ""),
        (_launched(_used_twice), ""),
    ],
    ids=["rounded", "wide", "rounded into scratch", "rounded at the end", "used twice"],
)
def test_only_parts_that_are_rounded_for_nothing_are_reported(run: Any, verdict: str) -> None:
    assert _verdicts(run) == ([("narrow-accumulator", verdict)] if verdict else [])


def test_a_sum_of_one_part_is_left_alone() -> None:
    run = pl.pallas_call(_rounded, out_shape=jax.ShapeDtypeStruct((16, 128), f32), grid=(1,))
    args = jax.ShapeDtypeStruct((16, 128), bf16), jax.ShapeDtypeStruct((128, 128), bf16)
    assert not tp.check(run, *args, target="tpu-v5e").diagnostics


def test_the_rounded_sum_is_no_better_than_a_narrow_one() -> None:
    random = np.random.default_rng(0)
    x, y = (jnp.asarray(random.standard_normal(a.shape), bf16) for a in (X, Y))
    want = np.asarray(x, np.float64) @ np.asarray(y, np.float64)

    def error(rounded: bool) -> float:
        got = _launched(functools.partial(_rounded, rounded=rounded), interpret=True)(x, y)
        return float(np.sqrt(np.mean((np.asarray(got, np.float64) - want) ** 2) / np.mean(want**2)))

    assert error(rounded=True) > 3e-4
    assert error(rounded=False) < 1e-6


BYTES = jax.ShapeDtypeStruct((32, 128 * STEPS), jnp.int8), jax.ShapeDtypeStruct((128 * STEPS, 128), jnp.int8)


def _bytes_summed(acc_type: Any, *, result: Any = f32, one_hot: bool = False, steps: int = STEPS) -> Any:
    def kernel(x: Any, y: Any, o: Any, acc: Any) -> None:
        @_first
        def _() -> None:
            acc[...] = jnp.zeros_like(acc)

        left = (x[...] == 3).astype(jnp.int8) if one_hot else x[...]
        acc[...] += jnp.dot(left, y[...], preferred_element_type=jnp.int32)

        @pl.when(pl.program_id(0) == steps - 1)
        def _() -> None:
            o[...] = acc[...].astype(o.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((32, 128), result),
        grid=(steps,),
        in_specs=[pl.BlockSpec((32, 128), lambda k: (0, k)), pl.BlockSpec((128, 128), lambda k: (k, 0))],
        out_specs=pl.BlockSpec((32, 128), lambda k: (0, 0)),
        scratch_shapes=[pltpu.VMEM((32, 128), acc_type)],
    )


@pytest.mark.parametrize(
    ("run", "verdict"),
    [
        (_bytes_summed(jnp.int8), "refuted"),
        (_bytes_summed(jnp.int16), "refuted"),
        (_bytes_summed(jnp.int32), ""),
        (_bytes_summed(f32), ""),
        (_bytes_summed(jnp.int8, result=jnp.int8), "open"),
        (_bytes_summed(jnp.int8, one_hot=True), "open"),
        (_bytes_summed(jnp.int8, steps=1), ""),
    ],
    ids=["bytes", "16 bits", "32 bits", "float", "narrow result", "ones and zeros", "one step"],
)
def test_a_sum_of_integer_products_wants_32_bits(run: Any, verdict: str) -> None:
    found = [
        item for item in tp.check(run, *BYTES, target="tpu-v5e").diagnostics if item.rule == "narrow-accumulator"
    ]
    assert [item.verdict for item in found] == ([verdict] if verdict else [])
    assert all("one product of 128 pairs reaches 2064512" in item.witness for item in found)
