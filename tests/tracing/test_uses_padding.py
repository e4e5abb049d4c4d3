"""Padding that reaches a result: flagged exactly where TPU interpret mode, with NaN past the arrays, gives NaN."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp

f32 = jnp.float32
INTERPRET = pltpu.InterpretParams(uninitialized_memory="nan")
RUNS: dict[str, tuple[Callable[..., Any], tuple[jax.ShapeDtypeStruct, ...], bool]] = {}


def _zeroed(o: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o[...] = jnp.zeros_like(o)


def _over_columns(name: str, body: Callable[[Any], Any], flagged: bool, columns: int = 640, width: int = 256) -> None:
    """A kernel that adds up what ``body`` makes of each block of columns."""

    def kernel(x: Any, o: Any) -> None:
        _zeroed(o)
        o[...] += body(x[...])

    def run(x: Any, interpret: Any = False) -> Any:
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8, 1), f32),
            grid=(pl.cdiv(columns, width),),
            in_specs=[pl.BlockSpec((8, width), lambda k: (0, k))],
            out_specs=pl.BlockSpec((8, 1), lambda k: (0, 0)),
            interpret=interpret,
        )(x)

    RUNS[name] = run, (jax.ShapeDtypeStruct((8, columns), f32),), flagged


def _position(width: int = 256) -> Any:
    return pl.program_id(0) * width + jax.lax.broadcasted_iota(jnp.int32, (8, width), 1)


_over_columns("sum", lambda x: jnp.sum(x, 1, keepdims=True), True)
_over_columns("mean of squares", lambda x: jnp.mean(x * x, 1, keepdims=True), True)
_over_columns("maximum", lambda x: jnp.max(jnp.abs(x) * 2.0, 1, keepdims=True), True)
_over_columns("sum of exponentials", lambda x: jnp.sum(jnp.exp(x), 1)[:, None] / 3.0, True)
_over_columns("blocks that divide", lambda x: jnp.sum(x, 1, keepdims=True), False, 512)
_over_columns("block of the whole array", lambda x: jnp.sum(x, 1, keepdims=True), False, 640, 640)
_over_columns("masked", lambda x: jnp.sum(jnp.where(_position() < 640, x, 0.0), 1, keepdims=True), False)
_over_columns("masked late", lambda x: jnp.sum(jnp.where(_position() < 640, x * x, 0.0), 1, keepdims=True), False)


def _by_rows(name: str, body: Callable[[Any], Any], flagged: bool) -> None:
    """A kernel of row blocks, the last one partial, with a result for each row."""

    def kernel(x: Any, o: Any) -> None:
        o[...] = body(x[...])

    def run(x: Any, interpret: Any = False) -> Any:
        rows = pl.BlockSpec((16, 128), lambda i: (i, 0))
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((40, 128), f32),
            grid=(3,),
            in_specs=[rows],
            out_specs=rows,
            interpret=interpret,
        )(x)

    RUNS[name] = run, (jax.ShapeDtypeStruct((40, 128), f32),), flagged


_by_rows("along the whole axis", lambda x: x - jnp.mean(x, 1, keepdims=True), False)
_by_rows("across the rows of a block", lambda x: jnp.broadcast_to(jnp.sum(x, 0, keepdims=True), (16, 128)), True)


def _product(name: str, masks: tuple[bool, bool], flagged: bool) -> None:
    def kernel(x: Any, y: Any, o: Any) -> None:
        _zeroed(o)
        columns = pl.program_id(0) * 256 + jax.lax.broadcasted_iota(jnp.int32, (8, 256), 1)
        rows = pl.program_id(0) * 256 + jax.lax.broadcasted_iota(jnp.int32, (256, 128), 0)
        left = jnp.where(columns < 640, x[...], 0.0) if masks[0] else x[...]
        right = jnp.where(rows < 640, y[...], 0.0) if masks[1] else y[...]
        o[...] += jnp.dot(left, right, preferred_element_type=f32)

    def run(x: Any, y: Any, interpret: Any = False) -> Any:
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8, 128), f32),
            grid=(3,),
            in_specs=[pl.BlockSpec((8, 256), lambda k: (0, k)), pl.BlockSpec((256, 128), lambda k: (k, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda k: (0, 0)),
            interpret=interpret,
        )(x, y)

    RUNS[name] = run, (jax.ShapeDtypeStruct((8, 640), f32), jax.ShapeDtypeStruct((640, 128), f32)), flagged


_product("product of partial blocks", (False, False), True)
_product("product of masked blocks", (True, True), False)


@pytest.mark.parametrize("name", RUNS)
def test_it_is_flagged_exactly_where_the_result_is_garbage(name: str) -> None:
    run, args, flagged = RUNS[name]
    found = {item.rule for item in tp.check(run, *args, target="tpu-v5e").diagnostics if item.verdict == "refuted"}
    assert found == ({"unmasked-padding"} if flagged else set())
    random = np.random.default_rng(0)
    arrays = [jnp.asarray(random.standard_normal(arg.shape), arg.dtype) for arg in args]
    assert bool(jnp.isnan(run(*arrays, interpret=INTERPRET)).any()) == flagged


def test_what_the_caller_cuts_off_is_left_alone() -> None:
    run, args, _ = RUNS["across the rows of a block"]
    assert not tp.check(lambda x: run(x)[:32], *args, target="tpu-v5e").diagnostics
