"""Matrix products for TPUs against NumPy."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import typedpallas as tp
from typedpallas.kernels.tpu.matmul import matmul, scaled_matmul

RANDOM = np.random.default_rng(5)


def normal(dtype: str, *shape: int) -> Any:
    return jnp.asarray(RANDOM.standard_normal(shape), dtype)


def wide(x: Any) -> np.ndarray:
    return np.asarray(x).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_floats(raceless: Callable[..., Any], dtype: str) -> None:
    x, y = normal(dtype, 40, 256), normal(dtype, 256, 200)
    found = raceless(matmul, x, y, out_dtype=jnp.float32, block=(16, 128, 128))
    np.testing.assert_allclose(found, wide(x) @ wide(y), rtol=1e-4, atol=1e-3)


def test_the_result_is_of_the_operands_type(raceless: Callable[..., Any]) -> None:
    x, y = normal("bfloat16", 32, 128), normal("bfloat16", 128, 128)
    found = raceless(matmul, x, y)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(wide(found), wide(x) @ wide(y), rtol=1e-2, atol=0.1)


def test_int8_is_summed_exactly(raceless: Callable[..., Any]) -> None:
    x, y = (RANDOM.integers(-128, 128, shape).astype(np.int8) for shape in ((64, 256), (256, 128)))
    rows, columns = (RANDOM.random(n).astype(np.float32) for n in (64, 128))
    found = raceless(scaled_matmul, jnp.asarray(x), jnp.asarray(y), rows, columns, block=(32, 128, 128))
    sums = (x.astype(np.int32) @ y.astype(np.int32)).astype(np.float32)
    np.testing.assert_allclose(found, sums * rows[:, None] * columns, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"])
def test_float8(raceless: Callable[..., Any], dtype: str) -> None:
    x, y = normal(dtype, 32, 256), normal(dtype, 256, 128)
    rows, columns = (RANDOM.random(n).astype(np.float32) for n in (32, 128))
    found = raceless(scaled_matmul, x, y, rows, columns, block=(32, 128, 128))
    np.testing.assert_allclose(found, wide(x) @ wide(y) * rows[:, None] * columns, rtol=1e-4, atol=1e-3)


def test_refusals() -> None:
    x, y = normal("float32", 32, 128), normal("float32", 64, 128)
    scale = np.ones(32, np.float32)
    with pytest.raises(tp.LaunchError, match=r"expected shapes \(m, k\) and \(k, n\), found \(32, 128\)"):
        matmul(x, y)
    with pytest.raises(tp.LaunchError, match="found float32 and bfloat16"):
        matmul(x, y.T.astype(jnp.bfloat16))
    with pytest.raises(tp.LaunchError, match="expected one type of int8"):
        scaled_matmul(x, x.T, scale, scale)
    whole = jnp.ones((32, 32), jnp.int8)
    with pytest.raises(tp.LaunchError, match=r"`y_scale`: expected shape \(32,\), found \(1,\)"):
        scaled_matmul(whole, whole, scale, scale[:1])
