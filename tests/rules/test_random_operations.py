"""Random numbers inside TPU kernels: keys, widths and shapes that the lowering takes, and those that it refuses."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp

OUT = jax.ShapeDtypeStruct((8, 128), jnp.float32)


def filled(draw: Callable[[], Any]) -> Callable[[], Any]:
    """A kernel that fills its result with what is drawn."""

    def body(o: Any) -> None:
        o[...] = jnp.broadcast_to(draw(), (8, 128)).astype(jnp.int32).astype(jnp.float32)

    return lambda: pl.pallas_call(body, out_shape=OUT)()


def of_the_chip(shape: tuple[int, ...]) -> Callable[[], Any]:
    def draw() -> Any:
        pltpu.prng_seed(3)
        return pltpu.prng_random_bits(shape)

    return filled(draw)


def key(kind: str = "threefry2x32") -> Any:
    return jax.random.key(3, impl=kind)


CASES = {
    "threefry": (filled(lambda: jax.random.bits(key(), (8, 128))), None),
    "threefry of one dim": (filled(lambda: jax.random.bits(key(), (128,))), None),
    "threefry scalar": (filled(lambda: jax.random.bits(key(), ())), None),
    "threefry folded": (filled(lambda: jax.random.uniform(jax.random.fold_in(key(), 1), (8, 128))), None),
    "normal": (filled(lambda: jax.random.normal(key(), (8, 128))), None),
    "one uniform": (filled(lambda: jax.random.uniform(key(), (1, 1))), None),
    "uniform scalar": (filled(lambda: jax.random.uniform(key(), ())), "reshape"),
    "bytes": (filled(lambda: jax.random.bits(key(), (8, 128), jnp.uint8)), "random_bits"),
    "split": (filled(lambda: jax.random.bits(jax.random.split(key())[0], (8, 128))), "random_split"),
    "rbg seeded": (filled(lambda: jax.random.key_data(key("rbg"))[0]), None),
    "rbg": (filled(lambda: jax.random.bits(key("rbg"), (8, 128))), "random_bits"),
    "unsafe rbg": (filled(lambda: jax.random.bits(key("unsafe_rbg"), (8, 128))), "random_bits"),
    "rbg folded": (
        filled(lambda: jax.random.key_data(jax.random.fold_in(key("rbg"), 1))[0]),
        "random_fold_in",
    ),
    "the chip's": (of_the_chip((8, 128)), None),
    "the chip's, of one dim": (of_the_chip((128,)), "prng_random_bits"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_compiler_agrees(name: str) -> None:
    run, wrong = CASES[name]
    said = tp.check(run, target="tpu-v5e").diagnostics
    if wrong is None:
        assert not said
        tp.compile(run, target="tpu-v5e")
        return
    assert {item.rule for item in said} == {"primitive-not-on-target"}
    assert any(f"`{wrong}`" in item.message and item.help for item in said)
    with pytest.raises((tp.CompileError, AssertionError, NotImplementedError)):
        tp.compile(run, target="tpu-v5e")
