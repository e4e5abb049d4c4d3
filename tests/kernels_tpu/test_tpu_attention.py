"""Flash attention for TPUs, forward and backward, against the definition in float32."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import typedpallas as tp
from typedpallas.kernels.tpu.attention import flash_attention
from typedpallas.kernels.tpu.attention_masks import Mask

RANDOM = np.random.default_rng(7)
LENGTH, DIM = 256, 32
MASKS: dict[str, tuple[bool, int | None, bool]] = {
    "none": (False, None, False),
    "causal": (True, None, False),
    "window": (True, 100, False),
    "segments": (False, None, True),
    "all": (True, 100, True),
}


def arrays(dtype: str, heads: int, kv_heads: int) -> list[Any]:
    return [
        jnp.asarray(RANDOM.standard_normal((1, count, LENGTH, DIM)), dtype) for count in (heads, kv_heads, kv_heads)
    ]


def segments() -> tuple[Any, Any]:
    ids = jnp.asarray(np.repeat([3, 5], [96, 160])[None], jnp.int32)
    return ids, ids


def reference(q: Any, k: Any, v: Any, ids: Any, causal: bool, window: int | None) -> Any:
    shared = q.shape[1] // k.shape[1]
    q, k, v = q.astype(jnp.float32), *(jnp.repeat(x.astype(jnp.float32), shared, 1) for x in (k, v))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * DIM**-0.5
    row, column = jnp.arange(LENGTH)[:, None], jnp.arange(LENGTH)[None]
    seen = (column <= row) if causal else jnp.full((LENGTH, LENGTH), True)
    seen = seen & (column > row - (window or LENGTH))
    if ids is not None:
        seen = seen & (ids[0][:, None, :, None] == ids[1][:, None, None, :])
    scores = jnp.where(seen, scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v), jax.nn.logsumexp(scores, axis=-1)


@pytest.mark.parametrize("name", MASKS)
def test_results_and_gradients(raceless: Callable[..., Any], name: str) -> None:
    causal, window, segmented = MASKS[name]
    ids, given = segments() if segmented else None, arrays("float32", 2, 1)
    pulls = [
        jnp.asarray(RANDOM.standard_normal(shape), jnp.float32) for shape in ((1, 2, LENGTH, DIM), (1, 2, LENGTH))
    ]

    def both(q: Any, k: Any, v: Any, interpret: Any) -> Any:
        def run(q: Any, k: Any, v: Any) -> Any:
            masks: Any = {"causal": causal, "window": window}
            return flash_attention(q, k, v, ids, **masks, with_lse=True, block=(128, 128), interpret=interpret)

        results, pull = jax.vjp(run, q, k, v)
        return *results, *pull(tuple(pulls))

    found = raceless(both, *given)
    expected, pull = jax.vjp(lambda q, k, v: reference(q, k, v, ids, causal, window), *given)
    for ours, theirs in zip(found, (*expected, *pull(tuple(pulls))), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_bfloat16(raceless: Callable[..., Any]) -> None:
    given = arrays("bfloat16", 2, 2)
    found = raceless(flash_attention, *given, causal=True, block=(128, 128))
    assert found.dtype == jnp.bfloat16
    expected, _ = reference(*given, None, True, None)
    np.testing.assert_allclose(found.astype(jnp.float32), expected, rtol=2e-2, atol=2e-2)


@given(
    st.sampled_from([8, 16, 24, 128]), st.integers(1, 9), st.sampled_from([8, 32, 128]), st.integers(1, 9),
    st.one_of(st.none(), st.integers(1, 300)),
)  # fmt: skip
@settings(max_examples=25)
def test_blocks_that_are_visited(bq: int, nq: int, bk: int, nk: int, window: int | None) -> None:
    """Every block with a visible score is visited, and none without; it is masked unless all of it is visible."""
    mask = Mask(True, window, bq, bk, nq, nk, False)
    query, key = np.arange(bq * nq)[:, None], np.arange(bk * nk)[None]
    seen = (key <= query) & (key > query - (window or bq * nq + bk * nk))
    cells = seen.reshape(nq, bq, nk, bk).transpose(0, 2, 1, 3).reshape(nq, nk, -1)
    i, j = np.arange(nq)[:, None], np.arange(nk)[None]
    some, every = mask.overlap(i, j)
    np.testing.assert_array_equal(some, cells.any(axis=2))
    np.testing.assert_array_equal(every, cells.all(axis=2))
    ii, jj = np.broadcast_arrays(i, j)
    np.testing.assert_array_equal(mask.key_block(jnp.asarray(ii), jnp.asarray(jj))[some], jj[some])
    np.testing.assert_array_equal(mask.query_block(jnp.asarray(ii), jnp.asarray(jj))[some], ii[some])


def test_refusals() -> None:
    q, k, v = arrays("float32", 3, 2)
    with pytest.raises(tp.LaunchError, match="2 heads of keys do not divide 3 heads of queries"):
        flash_attention(q, k, v)
    q = q[:, :2]
    with pytest.raises(tp.LaunchError, match="`window`: expected at least 1 and `causal`, found 3"):
        flash_attention(q, k, v, window=3)
    with pytest.raises(tp.LaunchError, match="expected a multiple of 96 queries, found 256"):
        flash_attention(q, k, v, block=(96, 128))
    with pytest.raises(tp.LaunchError, match="`segments` of keys: expected int32"):
        flash_attention(q, k, v, (segments()[0], segments()[1].astype(jnp.float32)))
    with pytest.raises(tp.LaunchError, match="found float32, float32 and bfloat16"):
        flash_attention(q, k, v.astype(jnp.bfloat16))
    with pytest.raises(tp.LaunchError, match="found shapes"):
        flash_attention(q[0], k, v)
