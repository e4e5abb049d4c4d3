"""Stores to the inputs of GPU kernels: what changes the caller's array is refused, and nothing else."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp

ARRAY = jax.ShapeDtypeStruct((128,), jnp.float32)


def _kernel(x: Any, o: Any) -> None:
    x[...] = x[...] * 2.0
    o[...] = x[...]


triton = pl.pallas_call(_kernel, out_shape=ARRAY)
mosaic = plgpu.kernel(_kernel, out_type=ARRAY)
shared = pl.pallas_call(_kernel, out_shape=ARRAY, input_output_aliases={0: 0})


def _refused(run: Callable[..., Any], target: str = "h100") -> list[str]:
    found = tp.check(run, ARRAY, target=target).diagnostics
    return [item.message for item in found if item.rule == "store-to-input"]


@pytest.mark.parametrize("run", [triton, mosaic], ids=["triton", "mosaic"])
def test_the_callers_array_may_not_be_stored_to(run: Callable[..., Any]) -> None:
    [message] = _refused(run)
    assert "cannot store to `x`" in message and "the caller's" in message
    assert _refused(jax.jit(lambda x: run(x))), "through `jax.jit` it is the caller's too"


def test_what_is_no_callers_array_may() -> None:
    assert _refused(lambda x: triton(x + 1.0)) == []
    assert _refused(lambda x: mosaic(jnp.zeros_like(x))) == []
    assert _refused(jax.jit(triton, donate_argnums=0)) == []
    assert _refused(shared) == []


def test_a_ref_may() -> None:
    def run(x: Any) -> Any:
        ref = jax.new_ref(x)
        return mosaic(ref), jax.freeze(ref)

    assert _refused(run) == []


def test_on_a_tpu_it_is_room_for_work() -> None:
    assert _refused(pl.pallas_call(_kernel, out_shape=ARRAY), "tpu-v5e") == []
