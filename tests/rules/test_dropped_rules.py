"""Rules that are not there, because the compilers take what they would refuse: asked again."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from sweeps_common import Kernel, refusal, refuted, verdicts

from typedpallas import rules

DROPPED = ("dot-too-small", "element-index", "unproved-multiple")


def test_none_of_them_is_a_rule() -> None:
    assert not set(DROPPED) & set(rules.all_rules())


def _product(rows: int, depth: int, columns: int, dtype: str) -> Kernel:
    wide = jnp.int32 if dtype == "int8" else jnp.float32

    def kernel(x: Any, y: Any, o: Any) -> None:
        o[...] = jnp.dot(x[...], y[...], preferred_element_type=wide)

    args = jax.ShapeDtypeStruct((rows, depth), dtype), jax.ShapeDtypeStruct((depth, columns), dtype)
    run = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((rows, columns), wide))
    return Kernel(f"({rows}, {depth}) x ({depth}, {columns}) of {dtype}", run, args)


@pytest.mark.compiler
@pytest.mark.parametrize("size", [(1, 16, 16), (16, 1, 16), (16, 16, 1), (4, 4, 4), (16, 8, 16), (1, 1, 1)])
def test_triton_takes_small_products(size: tuple[int, int, int]) -> None:
    for dtype in ("float32", "bfloat16", "int8"):
        kernel = _product(*size, dtype)
        assert refusal(kernel, "h100") == "", kernel.words
        assert not refuted(verdicts(kernel, "h100")), kernel.words
