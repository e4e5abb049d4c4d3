"""Lookups along an axis on TPUs: what the rules refuse the compiler refuses, the rest passes."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from rules.sweeps_common import Kernel, refusal, refuted, verdicts

S = jax.ShapeDtypeStruct
MINE = {"wide-lookup", "primitive-not-on-target", "dtype-not-on-target"}


def _lookup(shape: Any, axis: int, dtype: str) -> Kernel:
    def kernel(x: Any, at: Any, o: Any) -> None:
        o[...] = jnp.take_along_axis(x[...], at[...], axis=axis)

    run = pl.pallas_call(kernel, out_shape=S(shape, dtype))
    return Kernel(f"axis {axis} of {shape} {dtype}", run, (S(shape, dtype), S(shape, "int32")))


CASES: dict[Any, bool | None] = {
    ((8, 128), 0, "float32"): True,
    ((8, 128), 1, "int32"): True,
    ((16, 128), 0, "float32"): False,
    ((12, 128), 0, "float32"): False,
    ((16, 128), 1, "float32"): True,
    ((8, 256), 0, "uint32"): True,
    ((8, 256), 1, "float32"): False,
    ((8, 200), 1, "float32"): False,
    ((8, 100), 1, "float32"): True,
    ((4, 128), 0, "float32"): True,
    ((16, 128), 1, "int16"): None,
    ((32, 128), 1, "uint8"): None,
    ((2, 8, 128), 2, "float32"): True,
    ((2, 8, 128), 1, "float32"): True,
    ((2, 8, 128), 0, "float32"): False,
}


@pytest.mark.parametrize(("shape", "axis", "dtype"), CASES)
def test_lookups_in_one_register_pass(shape: Any, axis: int, dtype: str) -> None:
    for target in ("tpu-v5e", "tpu-7x"):
        found = refuted(verdicts(_lookup(shape, axis, dtype), target))
        assert (
            found == ({True: set(), False: {"wide-lookup"}, None: {"dtype-not-on-target"}}[CASES[shape, axis, dtype]])
        )


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v4", "tpu-v5e", "tpu-v6e", "tpu-7x"])
def test_the_compiler_refuses_the_same_lookups(target: str) -> None:
    for shape, axis, dtype in CASES:
        case = _lookup(shape, axis, dtype)
        said, words = refuted(verdicts(case, target)) & MINE, refusal(case, target)
        assert bool(said) == bool(words), f"{case.words} on {target}: {said}, but {words[:200]}"


@pytest.mark.parametrize("dtype", ["int16", "uint8", "float16"])
def test_what_no_type_has_this_one_has_not(dtype: str) -> None:
    def kernel(x: Any, o: Any) -> None:
        o[...] = jnp.flip(x[...], 1)

    shape = S((32, 128), dtype)
    assert "primitive-not-on-target" in refuted(
        verdicts(Kernel("flip", pl.pallas_call(kernel, out_shape=shape), (shape,)), "tpu-v5e")
    )
