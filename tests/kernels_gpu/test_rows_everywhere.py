"""`softmax`, `rms_norm` and `layer_norm` on any machine."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import typedpallas as tp
from typedpallas.kernels import layer_norm, rms_norm, softmax

RANDOM = np.random.default_rng(11)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(7, 256), (2, 20, 384), (33, 100), (64,)])
def test_numbers(shape: tuple[int, ...], dtype: str) -> None:
    x = jnp.asarray(RANDOM.standard_normal(shape), dtype)
    weight, bias = (jnp.asarray(RANDOM.standard_normal(shape[-1:]), jnp.float32) for _ in range(2))
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    near = {"rtol": 1e-2, "atol": 3e-2} if dtype == "bfloat16" else {"rtol": 1e-5, "atol": 1e-5}
    for found, expected in (
        (softmax(x), jax.nn.softmax(wide, -1)),
        (rms_norm(x, weight), wide / jnp.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * weight),
        (
            layer_norm(x, weight, bias, epsilon=1e-3),
            centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3) * weight + bias,
        ),
    ):
        assert (found.shape, found.dtype) == (x.shape, x.dtype)
        np.testing.assert_allclose(np.asarray(found, np.float32), expected, **near)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(7, 256), (2, 20, 384), (33, 100), (64,)])
def test_gradients(shape: tuple[int, ...], dtype: str) -> None:
    x, d_out = (jnp.asarray(RANDOM.standard_normal(shape), dtype) for _ in range(2))
    weight, bias = (jnp.asarray(RANDOM.standard_normal(shape[-1:]), jnp.float32) for _ in range(2))
    near = {"rtol": 2e-2, "atol": 1e-1} if dtype == "bfloat16" else {"rtol": 1e-4, "atol": 1e-5}
    for ours, plain, arrays in (
        (softmax, lambda x: jax.nn.softmax(x, -1), (x,)),
        (rms_norm, plain_rms_norm, (x, weight)),
        (layer_norm, plain_layer_norm, (x, weight, bias)),
    ):
        found = jax.vjp(ours, *arrays)[1](d_out)
        wide = [array.astype(jnp.float32) for array in arrays]
        expected = jax.vjp(plain, *wide)[1](d_out.astype(jnp.float32))
        for array, one, other in zip(arrays, found, expected, strict=True):
            assert (one.shape, one.dtype) == (array.shape, array.dtype)
            np.testing.assert_allclose(np.asarray(one, np.float32), other, **near)


def plain_rms_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight


def plain_layer_norm(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias


def test_parameters_of_another_length_are_refused() -> None:
    with pytest.raises(tp.LaunchError, match=r"rms_norm: expected parameters of shape \(64,\), found \(32,\)"):
        rms_norm(jnp.zeros((4, 64)), jnp.zeros(32))


def test_a_scalar_is_refused() -> None:
    with pytest.raises(tp.LaunchError, match="at least one axis"):
        softmax(jnp.float32(1))
