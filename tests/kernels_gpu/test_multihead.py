"""`multihead_attention` on any machine, and that a Hopper GPU gets its kernels."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import typedpallas as tp
from typedpallas.kernels import multihead_attention

RANDOM = np.random.default_rng(3)


def arrays(queries: int, keys: int, heads: int, kv_heads: int, head_dim: int = 16) -> list[jax.Array]:
    shapes = [(2, queries, heads, head_dim), *[(2, keys, kv_heads, head_dim)] * 2]
    return [jnp.asarray(RANDOM.standard_normal(shape), jnp.float32) for shape in shapes]


@pytest.mark.parametrize("window", [None, 1, 5])
def test_numbers(window: int | None) -> None:
    q, k, v = arrays(24, 24, 4, 2)
    found = multihead_attention(q, k, v, causal=True, window=window)
    size = None if window is None else (window - 1, 0)
    expected = jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=size)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_segments_are_apart() -> None:
    q, k, v = arrays(24, 24, 2, 2)
    ids = jnp.asarray(np.repeat([[0] * 10 + [1] * 14], 2, axis=0))
    found, lse = multihead_attention(q, k, v, segments=(ids, ids), with_lse=True)
    parts = [multihead_attention(q[:, s], k[:, s], v[:, s], with_lse=True) for s in (slice(10), slice(10, None))]
    np.testing.assert_allclose(found, jnp.concatenate([out for out, _ in parts], axis=1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(lse, jnp.concatenate([lse for _, lse in parts], axis=2), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda q, k, v: multihead_attention(q[0], k, v), "expected \\(batch, length, heads, head_dim\\)"),
        (lambda q, k, v: multihead_attention(q, k.astype("float16"), v), "expected one float type"),
        (lambda q, k, v: multihead_attention(q, k[:, :, :2], v[:, :, :2]), "2 heads of keys do not divide 3"),
        (lambda q, k, v: multihead_attention(q, k, v, window=3), "expected at least 1 and `causal`, found 3"),
        (lambda q, k, v: multihead_attention(q, k, v, segments=(q[..., 0, 0], k[..., 0, 0].T)), "`segments` of keys"),
    ],
)
def test_refused(change: Any, words: str) -> None:
    with pytest.raises(tp.LaunchError, match=words):
        change(*arrays(8, 12, 3, 3))


@pytest.mark.compiler
@pytest.mark.parametrize("causal", [False, True])
def test_a_hopper_gpu_gets_its_kernels_for_odd_lengths(causal: bool) -> None:
    shape = jax.ShapeDtypeStruct((2, 1000, 8, 64), jnp.bfloat16)
    attend = functools.partial(multihead_attention, causal=causal)

    def gradients(*args: jax.Array) -> Any:
        return jax.grad(lambda *a: attend(*a).astype(jnp.float32).sum(), (0, 1, 2))(*args)

    try:
        found = tp.compile(gradients, shape, shape, shape, target="h200")
    except tp.CompileError as error:
        if error.kind == "unavailable":
            pytest.skip(str(error))
        raise
    names = " ".join(kernel.name for kernel in found.kernels)
    assert ("segmented_attention_kernel" in names) is not causal
    assert "attention_backward_kernel" in names
