"""A launch lowers to the module of the Pallas code that a person would write: for each kernel and backend."""

import functools
import io
import re
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import by_hand
import jax
import jax.numpy as jnp
import pytest

from typedpallas import chips
from typedpallas.compilers.ambient import lowering_platform, target_context
from typedpallas.compilers.kernel_text import KernelText, kernels
from typedpallas.launching import Launch

# The package exports the functions; the modules have the launches.
relu, product, attention = (
    import_module(f"typedpallas.kernels.{name}") for name in ("scaled_relu", "matmul", "flash_attention")
)
SQUARE = jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16)
HEADS = jax.ShapeDtypeStruct((2, 4, 1024, 128), jnp.bfloat16)
ATTENTION = attention.launch(causal=False, scale=128**-0.5)
CASES = {
    "relu tpu": ("mosaic_tpu", "tpu-v5e", relu.launch, by_hand.tpu_relu, (SQUARE,), (256, 512)),
    "relu triton": ("triton", "a100", relu.launch, by_hand.triton_relu, (SQUARE,), (64, 128)),
    "relu mosaic gpu": ("mosaic_gpu", "h100", relu.launch, by_hand.gpu_relu, (SQUARE,), (64, 128)),
    "matmul tpu": ("mosaic_tpu", "tpu-v5e", product.launch, by_hand.tpu_matmul, (SQUARE,) * 2, (512, 256, 512)),
    "matmul triton": ("triton", "a100", product.launch, by_hand.triton_matmul, (SQUARE,) * 2, (128, 64, 128)),
    "matmul mosaic gpu": ("mosaic_gpu", "h100", product.launch, by_hand.gpu_matmul, (SQUARE,) * 2, (128, 64, 128)),
    "attention tpu": ("mosaic_tpu", "tpu-v5e", ATTENTION, by_hand.tpu_flash, (HEADS,) * 3, (256, 512)),
    "attention triton": ("triton", "a100", ATTENTION, by_hand.triton_flash, (HEADS,) * 3, (64, 64)),
    "attention mosaic gpu": ("mosaic_gpu", "h100", ATTENTION, by_hand.gpu_flash, (HEADS,) * 3, (64, 64)),
}


def lowered(fn: Callable[..., Any], avals: tuple[Any, ...], target: str) -> list[KernelText]:
    with target_context(target):
        traced = jax.jit(fn).trace(*avals)
        module = traced.lower(lowering_platforms=(lowering_platform(chips.get(target)),)).compiler_ir()
    code = io.BytesIO()
    module.operation.write_bytecode(code)
    return kernels(code.getvalue())


def typed(launch: Launch, backend: Any, sizes: tuple[int, ...]) -> Callable[..., Any]:
    names = launch.signature.pattern.blocks
    return functools.partial(replace(launch, backend=backend, _compiled={}), **dict(zip(names, sizes, strict=True)))


@pytest.mark.parametrize("case", CASES)
def test_same_module(case: str) -> None:
    backend, target, launch, hand, avals, sizes = CASES[case]
    (ours,) = lowered(typed(launch, backend, sizes), avals, target)
    (theirs,) = lowered(lambda *arrays: hand(*arrays, *sizes), avals, target)
    assert (ours.backend, ours.name) == (theirs.backend, theirs.name)
    assert without_names(ours.text) == without_names(theirs.text)


def without_names(text: str) -> str:
    """MLIR text less the number that Mosaic GPU gives each kernel of a process."""
    return re.sub(r'mosaic_gpu\.dump_basename = "[^"]*"', "", text)


def test_a_difference_shows() -> None:
    (ours,) = lowered(typed(relu.launch, "mosaic_tpu", (256, 512)), (SQUARE,), "tpu-v5e")
    (theirs,) = lowered(lambda x: by_hand.tpu_relu(x, 512, 512), (SQUARE,), "tpu-v5e")
    assert without_names(ours.text) != without_names(theirs.text)
