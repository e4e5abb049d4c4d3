"""Paged attention for TPUs against NumPy, one sequence and head after the other."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import typedpallas as tp
from typedpallas.kernels.tpu.paged_attention import paged_attention

RANDOM = np.random.default_rng(6)
PAGE, DIM = 16, 128
NOWHERE = -7
"""What tables hold behind a sequence's end."""


def arrays(dtype: str, heads: int, kv_heads: int) -> tuple[Any, ...]:
    """A sequence that ends within a page, one without keys, and one that fills its pages."""
    q = jnp.asarray(RANDOM.standard_normal((3, heads, DIM)), dtype)
    k, v = (jnp.asarray(RANDOM.standard_normal((kv_heads, 12, PAGE, DIM)), dtype) for _ in range(2))
    tables = np.full((3, 4), NOWHERE, np.int32)
    tables[0, :3], tables[2] = (3, 1, 2), (4, 9, 6, 7)
    # Behind the end, pages hold anything.
    k, v = (pages.at[:, 2, 37 % PAGE :].set(jnp.nan).at[:, 11].set(jnp.inf) for pages in (k, v))
    return q, k, v, jnp.asarray(tables), jnp.asarray([37, 0, 64], jnp.int32)


def reference(q: Any, k: Any, v: Any, tables: Any, lengths: Any, window: int | None = None) -> np.ndarray:
    q, k, v = (np.asarray(x).astype(np.float32) for x in (q, k, v))
    out = np.zeros_like(q)
    for sequence, head in np.ndindex(*q.shape[:2]):
        length = int(lengths[sequence])
        places = np.asarray(tables[sequence, : -(-length // PAGE)])
        first = 0 if window is None else max(0, length - window)
        keys, values = (x[head * len(k) // q.shape[1], places].reshape(-1, DIM)[first:length] for x in (k, v))
        if length:
            scores = keys @ q[sequence, head] * DIM**-0.5
            weights = np.exp(scores - scores.max())
            out[sequence, head] = weights @ values / weights.sum()
    return out


@pytest.mark.parametrize(("dtype", "heads", "kv_heads"), [("float32", 4, 2), ("bfloat16", 2, 2)])
def test_numbers(raceless: Callable[..., Any], dtype: str, heads: int, kv_heads: int) -> None:
    given = arrays(dtype, heads, kv_heads)
    found = raceless(paged_attention, *given, pages_per_step=2)
    assert found.dtype == dtype
    tolerance = 1e-5 if dtype == "float32" else 2e-2
    np.testing.assert_allclose(np.asarray(found, np.float32), reference(*given), rtol=tolerance, atol=tolerance)


def test_a_window(raceless: Callable[..., Any]) -> None:
    given = arrays("float32", 2, 1)
    found = raceless(paged_attention, *given, window=20, pages_per_step=1)
    np.testing.assert_allclose(found, reference(*given, window=20), rtol=1e-5, atol=1e-5)


def test_it_runs_where_no_tpu_is() -> None:
    given = arrays("float32", 2, 1)
    np.testing.assert_allclose(paged_attention(*given), reference(*given), rtol=1e-5, atol=1e-5)


def test_refusals() -> None:
    q, k, v, tables, lengths = arrays("float32", 4, 2)
    with pytest.raises(tp.LaunchError, match="2 heads of keys do not divide 3 heads of queries"):
        paged_attention(q[:, :3], k, v, tables, lengths)
    with pytest.raises(tp.LaunchError, match=r"expected \(sequences, heads, head_dim\)"):
        paged_attention(q, k[0], v[0], tables, lengths)
    with pytest.raises(tp.LaunchError, match="tables and lengths of 3 sequences"):
        paged_attention(q, k, v, tables[:2], lengths)
    with pytest.raises(tp.LaunchError, match="expected int32 tables"):
        paged_attention(q, k, v, tables.astype(jnp.float32), lengths)
    with pytest.raises(tp.LaunchError, match="found float32, float32 and bfloat16"):
        paged_attention(q, k, v.astype(jnp.bfloat16), tables, lengths)
    with pytest.raises(tp.LaunchError, match="`window`: expected at least 1, found 0"):
        paged_attention(q, k, v, tables, lengths, window=0)
    with pytest.raises(tp.LaunchError, match="`pages_per_step`: expected at least 1, found 0"):
        paged_attention(q, k, v, tables, lengths, pages_per_step=0)
