"""The kernels in interpret mode against float32 references, on both forms that a CPU runs."""

import functools
from dataclasses import replace
from importlib import import_module
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import typedpallas as tp
from typedpallas.compilers.ambient import target_context
from typedpallas.kernels import flash_attention, matmul, scaled_relu

# The package exports the functions; the modules have the launches.
relu_file, matmul_file, attention_file = (
    import_module(f"typedpallas.kernels.{name}") for name in ("scaled_relu", "matmul", "flash_attention")
)
RANDOM = np.random.default_rng(3)
TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
DTYPES = ("float32", "float16", "bfloat16")


def normal(dtype: str, *shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(jnp.dtype(dtype))


def wide(x: Any) -> np.ndarray:
    return np.asarray(x).astype(np.float32)


def close(found: Any, expected: np.ndarray, dtype: str) -> None:
    assert found.dtype == dtype
    np.testing.assert_allclose(wide(found), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def attention(q: Any, k: Any, v: Any, causal: bool, scale: float | None = None) -> np.ndarray:
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    scores = np.einsum("bhqd,bhkd->bhqk", wide(q), wide(k)) * factor
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(axis=-1, keepdims=True), wide(v))


@pytest.mark.parametrize("dtype", DTYPES)
def test_scaled_relu(dtype: str) -> None:
    x = normal(dtype, 72, 200)
    close(scaled_relu(x), np.maximum(wide(x) * 2 + 1, 0), dtype)
    close(scaled_relu(x, block=(16, 64)), np.maximum(wide(x) * 2 + 1, 0), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block", [None, (16, 32, 128), (32, 128, 64)])
def test_matmul(dtype: str, block: tuple[int, int, int] | None) -> None:
    x, y = normal(dtype, 72, 128), normal(dtype, 128, 200)
    scale = 128**0.5
    close(matmul(x, y, block=block), wide(x) @ wide(y), dtype) if dtype == "float32" else None
    np.testing.assert_allclose(
        wide(matmul(x, y, block=block)) / scale,
        wide(x) @ wide(y) / scale,
        atol=TOLERANCE[dtype],
        rtol=TOLERANCE[dtype],
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_flash_attention(dtype: str, causal: bool, head_dim: int) -> None:
    q, k, v = (normal(dtype, 2, 2, 128, head_dim) for _ in range(3))
    close(flash_attention(q, k, v, causal=causal, block=(32, 64)), attention(q, k, v, causal), dtype)


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from([8, 16, 24]), st.integers(1, 4), st.sampled_from([8, 16]), st.integers(1, 4), st.booleans(),
    st.sampled_from([None, 1.0, 0.1]),
)  # fmt: skip
def test_attention_of_any_shape(bq: int, nq: int, bk: int, nk: int, causal: bool, scale: float | None) -> None:
    q, k, v = normal("float32", 1, 2, bq * nq, 16), *(normal("float32", 1, 2, bk * nk, 16) for _ in range(2))
    found = flash_attention(q, k, v, causal=causal, scale=scale, block=(bq, bk))
    close(found, attention(q, k, v, causal, scale), "float32")


def test_extreme_scores_give_no_nan() -> None:
    q = np.full((1, 1, 32, 16), 1e4, np.float32)
    out = flash_attention(q, -q, q, causal=True, block=(8, 8))
    assert np.isfinite(out).all()


def test_queries_need_not_fill_the_last_block() -> None:
    q, k, v = normal("float32", 1, 1, 40, 16), normal("float32", 1, 1, 32, 16), normal("float32", 1, 1, 32, 16)
    close(flash_attention(q, k, v, block=(16, 16)), attention(q, k, v, False), "float32")


@pytest.mark.parametrize("target", ["h100", "b200"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_as_mosaic_gpu_runs_it(target: str, causal: bool) -> None:
    q, k, v = (normal("float16", 1, 1, 256, 64) for _ in range(3))
    run = attention_file.launch(causal=causal, scale=64**-0.5)
    with target_context(target):
        out = replace(run, backend="mosaic_gpu", interpret=True, _compiled={})(q, k, v, BQ=128, BK=64)
    close(out, attention(q, k, v, causal), "float16")


@pytest.mark.parametrize("target", ["h100", "b200"])
def test_matmul_as_mosaic_gpu_runs_it(target: str) -> None:
    x, y = normal("float16", 128, 128), normal("float16", 128, 64)
    with target_context(target):
        out = replace(matmul_file.launch, backend="mosaic_gpu", interpret=True, _compiled={})(
            x, y, BM=128, BK=64, BN=64
        )
    np.testing.assert_allclose(wide(out), wide(x) @ wide(y), rtol=4e-3, atol=4e-2)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_as_triton_runs_it(causal: bool) -> None:
    q, k, v = (normal("float32", 1, 2, 64, 16) for _ in range(3))
    run = replace(attention_file.launch(causal=causal, scale=0.25), backend="triton", _compiled={})
    close(run(q, k, v, BQ=16, BK=32), attention(q, k, v, causal), "float32")


def test_relu_as_mosaic_gpu_runs_it() -> None:
    x = normal("float32", 32, 256)
    out = replace(relu_file.launch, backend="mosaic_gpu", _compiled={})(x, BM=16, BN=128)
    close(out, np.maximum(x * 2 + 1, 0), "float32")


def test_ranks() -> None:
    for call in (
        functools.partial(scaled_relu, np.ones(3, np.float32)),
        functools.partial(matmul, np.ones(3, np.float32), np.ones((3, 3), np.float32)),
        functools.partial(flash_attention, *[np.ones((4, 4), np.float32)] * 3),
    ):
        with pytest.raises(tp.LaunchError, match="expected"):
            call()
