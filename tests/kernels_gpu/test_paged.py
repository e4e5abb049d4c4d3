"""`paged_attention` on any machine, and that the compiler takes its Hopper kernel."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import typedpallas as tp
from typedpallas.kernels import paged_attention

RANDOM = np.random.default_rng(7)


def arrays(head_dim: int = 8, page: int = 4) -> list[Any]:
    q = RANDOM.standard_normal((3, 4, head_dim)).astype("float32")
    k, v = (RANDOM.standard_normal((2, 15, page, head_dim)).astype("float32") for _ in range(2))
    return [*map(jnp.asarray, (q, k, v, RANDOM.permutation(15).reshape(3, 5), np.array([1, 9, 20])))]


def test_numbers() -> None:
    q, k, v, table, lengths = (np.asarray(x) for x in arrays())
    found = paged_attention(*map(jnp.asarray, (q, k, v, table, lengths)), scale=0.3)
    for sequence, length in enumerate(lengths):
        for head in range(4):
            keys, values = (np.concatenate(x[head // 2, table[sequence]])[:length] for x in (k, v))
            weights = np.exp(0.3 * keys @ q[sequence, head])
            np.testing.assert_allclose(found[sequence, head], weights @ values / weights.sum(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda q, k, v, t, n: (q, k, v[:1], t, n), "pages of such heads"),
        (lambda q, k, v, t, n: (q[:, :3], k, v, t, n), "2 heads of keys do not divide 3 heads"),
        (lambda q, k, v, t, n: (q, k, v, t[:2], n), "a length for each sequence"),
    ],
)
def test_refused(change: Callable[..., Any], words: str) -> None:
    with pytest.raises(tp.LaunchError, match=words):
        paged_attention(*change(*arrays()))


@pytest.mark.compiler
@pytest.mark.parametrize(("head_dim", "page"), [(64, 128), (128, 64), (128, 128)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_compiler_takes_the_kernel(dtype: str, head_dim: int, page: int) -> None:
    shape = jax.ShapeDtypeStruct
    q, pages = shape((32, 32, head_dim), jnp.dtype(dtype)), shape((8, 2048, page, head_dim), jnp.dtype(dtype))
    operands = (q, pages, pages, shape((32, 64), jnp.int32), shape((32,), jnp.int32))
    try:
        found = tp.compile(paged_attention, *operands, target="h200")
    except tp.CompileError as error:
        if error.kind == "unavailable":
            pytest.skip(str(error))
        raise
    words = "\n".join(kernel.assembler for kernel in found.kernels)
    assert "decode_kernel" in words and "0 bytes spill stores" in words
