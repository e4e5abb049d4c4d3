"""The portable functions take the TPU kernels where those serve, and plain XLA elsewhere."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import typedpallas as tp
from typedpallas import kernels
from typedpallas.kernels import multihead

RANDOM = np.random.default_rng(9)


def array(dtype: str, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def attention(dtype: str, length: int = 256, dim: int = 64) -> tuple[Any, ...]:
    q, k = array(dtype, 2, length, 4, dim), array(dtype, 2, length, 2, dim)
    return functools.partial(kernels.multihead_attention, causal=True), q, k, k


def paged(dtype: str, page: int = 16) -> tuple[Any, ...]:
    pages = array(dtype, 2, 8, page, 128)
    return kernels.paged_attention, array(dtype, 3, 4, 128), pages, pages, array("int32", 3, 2), array("int32", 3)


def grouped(dtype: str, n: int = 128) -> tuple[Any, ...]:
    return kernels.grouped_matmul, array(dtype, 100, 256), array(dtype, 3, 256, n), array("int32", 3)


@pytest.mark.parametrize(
    ("call", "target", "kernel"),
    [
        (attention("bfloat16"), "tpu-v5e", "attention_kernel"),
        (attention("float32"), "tpu-v2", "attention_kernel"),
        (attention("bfloat16"), "tpu-v3", None),
        (attention("float16"), "tpu-v5e", None),
        (attention("bfloat16", length=100), "tpu-v5e", None),
        (paged("bfloat16"), "tpu-v4", "paged_attention_kernel"),
        (paged("float32"), "tpu-v3", "paged_by_grid_kernel"),
        (paged("bfloat16"), "tpu-v3", None),
        (paged("bfloat16", page=12), "tpu-v5e", None),
        (grouped("bfloat16"), "tpu-7x", "grouped_matmul_kernel"),
        (grouped("float32"), "tpu-v2", "grouped_matmul_kernel"),
        (grouped("bfloat16", n=100), "tpu-7x", None),
    ],
)
def test_which_kernel(call: tuple[Callable[..., Any], Any], target: str, kernel: str | None) -> None:
    fn, *arrays = call
    report = tp.check(fn, *arrays, target=target)
    assert report.ok
    assert [found.name for found in report.kernels] == ([] if kernel is None else [kernel])


def test_attention_has_its_axes_in_order() -> None:
    """The numbers of the TPU's way, interpreted, are those of the definition."""
    q, k, v = (jnp.asarray(RANDOM.standard_normal((1, 128, heads, 64)), jnp.float32) for heads in (4, 2, 2))
    options = multihead._Options(True, None, 0.125)
    expected = multihead.reference(q, k, v, None, options)
    for ours, theirs in zip(multihead._on_tpu(q, k, v, None, options), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_gradients_go_through() -> None:
    fn, *arrays = attention("bfloat16")

    def loss(*given: Any) -> Any:
        return fn(*given).astype(jnp.float32).sum()

    report = tp.check(jax.grad(loss, argnums=(0, 1, 2)), *arrays, target="tpu-v5e")
    assert [found.name for found in report.kernels] == ["attention_kernel", "queries_kernel", "keys_kernel"]
