"""The kernels, handed to the vendors' compilers for every chip: each must be taken."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import typedpallas as tp
from typedpallas import compilers
from typedpallas.kernels import flash_attention, matmul, scaled_relu

pytestmark = pytest.mark.compiler
attention_file, matmul_file, relu_file = (
    import_module(f"typedpallas.kernels.{name}") for name in ("flash_attention", "matmul", "scaled_relu")
)
OTHER_DTYPES = {
    "tpu-v4": ("float32",),
    "tpu-7x": ("float32",),
    "a100": ("float32", "float16"),
    "l4": ("float32",),
    "h100": ("float32", "float16"),
    "b200": ("float32", "float16"),
}
"""Beside bfloat16, which every chip is asked for: the extremes of each machine."""
FLOATS_ALONE = ("tpu-v2", "tpu-v3")
"""Chips whose matrix unit takes float32 alone."""
SERVED = [name for name in tp.targets() if name != "t4"]
EVERYWHERE = [
    (target, dtype)
    for target in SERVED
    for dtype in (("float32",) if target in FLOATS_ALONE else ("bfloat16", *OTHER_DTYPES.get(target, ())))
]


@pytest.fixture(autouse=True, scope="module")
def no_process_left() -> Iterator[None]:
    yield
    compilers.shutdown()


def taken(fn: Callable[..., Any], *avals: Any, target: str) -> None:
    try:
        tp.compile(fn, *avals, target=target)
    except tp.CompileError as error:
        if error.kind == "unavailable":
            pytest.skip(str(error))
        raise


def square(dtype: str) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((1024, 1024), jnp.dtype(dtype))


def heads(dtype: str, head_dim: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((2, 4, 1024, head_dim), jnp.dtype(dtype))


@pytest.mark.parametrize(("target", "dtype"), EVERYWHERE)
def test_elementwise_and_matmul(target: str, dtype: str) -> None:
    taken(scaled_relu, square(dtype), target=target)
    taken(matmul, square(dtype), square(dtype), target=target)


@pytest.mark.parametrize(("target", "dtype"), EVERYWHERE)
def test_attention(target: str, dtype: str) -> None:
    for head_dim, causal in ((64, False), (64, True), (128, False), (128, True)):
        if (
            dtype == "bfloat16" or (head_dim == 128) == causal or target in FLOATS_ALONE
        ):  # the other types: one of each
            taken(functools.partial(flash_attention, causal=causal), *[heads(dtype, head_dim)] * 3, target=target)


@pytest.mark.parametrize("target", FLOATS_ALONE)
def test_products_of_narrow_floats_are_refused_with_the_reason(target: str) -> None:
    with pytest.raises(tp.PlacementError, match="expected operands of `f32`, found `bf16`"):
        tp.compile(matmul, square("bfloat16"), square("bfloat16"), target=target)


def test_a_card_that_triton_does_not_serve_is_refused_with_the_reason() -> None:
    with pytest.raises(tp.PlacementError, match="Triton, which serves compute capability"):
        tp.compile(scaled_relu, square("float32"), target="t4")


@pytest.mark.parametrize("target", ["h100", "h200", "b200"])
@pytest.mark.parametrize("backend", ["mosaic_gpu", "triton"])
def test_both_gpu_backends(target: str, backend: str) -> None:
    def on(launch: tp.Launch, **sizes: int) -> Callable[..., Any]:
        return functools.partial(replace(launch, backend=backend, _compiled={}), **sizes)

    rows = 128 if target == "b200" and backend == "mosaic_gpu" else 64
    taken(on(relu_file.launch, BM=64, BN=128), square("float16"), target=target)
    taken(on(matmul_file.launch, BM=128, BK=64, BN=128), *[square("float16")] * 2, target=target)
    attention = attention_file.launch(causal=True, scale=0.125)
    taken(on(attention, BQ=rows, BK=64), *[heads("float16", 64)] * 3, target=target)
