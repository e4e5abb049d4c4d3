"""Ragged paged attention for TPUs against NumPy: prefill and decoding in one call."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas.kernels.tpu.paged_attention import paged_attention
from typedpallas.kernels.tpu.ragged_paged_attention import ragged_paged_attention
from typedpallas.kernels.tpu.ragged_part import Part

PAGE, DIM = 16, 128
NOWHERE = -7
"""What tables hold behind a sequence's end."""

type Counts = Sequence[int]


def arrays(dtype: str, heads: tuple[int, int], queries: Counts, lengths: Counts, tokens: int, pages: int = 12) -> Any:
    """Sequences of so many queries and keys. Behind the sequences' ends, and in pages of nobody, lies anything."""
    random = np.random.default_rng(sum(lengths))
    k, v = (random.standard_normal((heads[1], pages, PAGE, DIM)).astype(np.float32) for _ in range(2))
    tables = np.full((len(lengths), 5), NOWHERE, np.int32)
    free, used = list(random.permutation(pages)), np.zeros((pages, PAGE), bool)
    for table, length in zip(tables, lengths, strict=True):
        for place in range(-(-length // PAGE)):
            table[place] = free.pop()
            used[table[place], : length - place * PAGE] = True
    k[:, ~used], v[:, ~used] = np.nan, np.inf
    q = random.standard_normal((tokens, heads[0], DIM))
    numbers = (jnp.asarray(x, dtype) for x in (q, k, v))
    return *numbers, *(jnp.asarray(x, jnp.int32) for x in (tables, lengths, np.cumsum([0, *queries])))


def reference(
    q: Any, k: Any, v: Any, tables: Any, lengths: Any, cu_q_lens: Any, window: int | None = None
) -> np.ndarray:
    q, k, v = (np.asarray(x).astype(np.float32) for x in (q, k, v))
    out = np.zeros_like(q)
    for sequence, head in np.ndindex(len(lengths), q.shape[1]):
        start, end = int(cu_q_lens[sequence]), int(cu_q_lens[sequence + 1])
        places = np.asarray(tables[sequence, : -(-int(lengths[sequence]) // PAGE)])
        keys, values = (x[head * len(k) // q.shape[1], places].reshape(-1, DIM) for x in (k, v))
        for token in range(start, end):
            last = int(lengths[sequence]) - (end - token)
            seen = slice(0 if window is None else max(0, last + 1 - window), last + 1)
            scores = keys[seen] @ q[token, head] * DIM**-0.5
            weights = np.exp(scores - scores.max())
            out[token, head] = weights @ values[seen] / weights.sum()
    return out


MIXED = ((5, 1, 0, 20, 1), (37, 64, 16, 20, 3))
"""A prompt that goes on, one token of a sequence that fills its pages, none, a prompt over two tiles, a token."""


@pytest.mark.parametrize(
    ("dtype", "heads", "queries", "lengths", "tokens"),
    [("float32", (4, 2), *MIXED, 40), ("bfloat16", (2, 2), (9, 1, 0), (9, 40, 0), 16)],
)
def test_numbers(
    raceless: Callable[..., Any], dtype: str, heads: tuple[int, int], queries: Counts, lengths: Counts, tokens: int
) -> None:
    """Tokens that no sequence has are zeros, in a last tile that is partial too."""
    given = arrays(dtype, heads, queries, lengths, tokens)
    found = raceless(ragged_paged_attention, *given, block=16, pages_per_step=2)
    assert found.dtype == dtype
    tolerance = 1e-5 if dtype == "float32" else 2e-2
    np.testing.assert_allclose(np.asarray(found, np.float32), reference(*given), rtol=tolerance, atol=tolerance)


def test_a_window(raceless: Callable[..., Any]) -> None:
    given = arrays("float32", (2, 1), (17, 1), (60, 33), 24)
    found = raceless(ragged_paged_attention, *given, window=20, block=16, pages_per_step=1)
    np.testing.assert_allclose(found, reference(*given, window=20), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", [None, 20])
def test_by_the_grid(raceless: Callable[..., Any], window: int | None) -> None:
    given = arrays("float32", (4, 2), (5, 1, 0, 18), (37, 64, 16, 40), 32)
    found = raceless(ragged_paged_attention, *given, window=window, block=16, by_grid=True)
    np.testing.assert_allclose(found, reference(*given, window), rtol=1e-5, atol=1e-5)


def test_decoding_alone_is_paged_attention() -> None:
    """It runs where no TPU is."""
    given = arrays("float32", (4, 2), (1, 1, 1), (37, 1, 64), 3)
    found = ragged_paged_attention(*given, pages_per_step=1)
    np.testing.assert_allclose(found, reference(*given), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found, paged_attention(*given[:5], pages_per_step=1), rtol=1e-5, atol=1e-5)


@functools.cache
def interpreted(window: int | None) -> Callable[..., Any]:
    """Compiled once for all lengths."""
    mode = pltpu.InterpretParams()
    return jax.jit(
        functools.partial(ragged_paged_attention, window=window, block=16, pages_per_step=2, interpret=mode)
    )


@given(
    st.lists(st.tuples(st.integers(0, 25), st.integers(0, 60)), min_size=3, max_size=3), st.sampled_from([None, 9])
)
@settings(max_examples=6, deadline=None)
def test_any_lengths(sequences: list[tuple[int, int]], window: int | None) -> None:
    """``sequences``: queries, and keys that were there before."""
    queries = [count for count, _ in sequences]
    lengths = [min(sum(both), 80) for both in sequences]
    given = arrays("float32", (2, 1), queries, lengths, 80, pages=15)
    np.testing.assert_allclose(interpreted(window)(*given), reference(*given, window), rtol=1e-5, atol=1e-5)


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_what_a_step_sees(data: st.DataObject) -> None:
    """A step's slots hold each key that one of its queries sees, and the first and last of them no key in vain."""
    size, group, keys = (data.draw(st.sampled_from(s)) for s in ((4, 16), (1, 3), (8, 16)))
    start, count, before = (data.draw(st.integers(0, most)) for most in (40, 40, 50))
    window = data.draw(st.one_of(st.none(), st.integers(1, 30)))
    tile = data.draw(st.integers(start // size, (start + max(count, 1) - 1) // size))
    ends = start + count if count else start
    tables = ([tile], [start if count else 0], [ends if count else 0])
    part = Part(0, *map(jnp.asarray, tables), jnp.int32(before + count), size * group, group, window)
    seen = {
        row: range(0 if window is None else max(0, last + 1 - window), last + 1)
        for row in range(size * group)
        if start <= (token := tile * size + row // group) < ends
        for last in [before + token - start]
    }
    np.testing.assert_array_equal(np.flatnonzero(part.owned((size * group, 1))), sorted(seen))
    first, end = map(int, part.turns(keys))
    every = sorted({key for some in seen.values() for key in some})
    assert (first, end) == ((every[0] // keys, every[-1] // keys + 1) if every else (end, end))
    visible = np.asarray(part.visible((size * group, 128), 0))
    for row, some in seen.items():
        np.testing.assert_array_equal(np.flatnonzero(visible[row]), list(some))


def test_refusals() -> None:
    q, k, v, tables, lengths, cu_q_lens = arrays("float32", (4, 2), *MIXED, 32)
    with pytest.raises(tp.LaunchError, match="2 heads of keys do not divide 3 heads of queries"):
        ragged_paged_attention(q[:, :3], k, v, tables, lengths, cu_q_lens)
    with pytest.raises(tp.LaunchError, match=r"expected \(tokens, heads, head_dim\)"):
        ragged_paged_attention(q, k[0], v[0], tables, lengths, cu_q_lens)
    with pytest.raises(tp.LaunchError, match="one entry more of `cu_q_lens`"):
        ragged_paged_attention(q, k, v, tables, lengths, cu_q_lens[1:])
    with pytest.raises(tp.LaunchError, match="expected int32 tables"):
        ragged_paged_attention(q, k, v, tables, lengths.astype(jnp.float32), cu_q_lens)
    with pytest.raises(tp.LaunchError, match="found float32, float32 and bfloat16"):
        ragged_paged_attention(q, k, v.astype(jnp.bfloat16), tables, lengths, cu_q_lens)
    for option in ("window", "block", "pages_per_step"):
        with pytest.raises(tp.LaunchError, match=f"`{option}`: expected at least 1, found 0"):
            ragged_paged_attention(q, k, v, tables, lengths, cu_q_lens, **{option: 0})
