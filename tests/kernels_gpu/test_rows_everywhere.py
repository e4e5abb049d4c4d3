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


def test_parameters_of_another_length_are_refused() -> None:
    with pytest.raises(tp.LaunchError, match=r"rms_norm: expected parameters of shape \(64,\), found \(32,\)"):
        rms_norm(jnp.zeros((4, 64)), jnp.zeros(32))


def test_a_scalar_is_refused() -> None:
    with pytest.raises(tp.LaunchError, match="at least one axis"):
        softmax(jnp.float32(1))
