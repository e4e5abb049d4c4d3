"""Grouped products for TPUs against one product for each group."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import typedpallas as tp
from typedpallas.kernels.tpu import grouped_steps
from typedpallas.kernels.tpu.grouped_matmul import grouped_matmul

RANDOM = np.random.default_rng(8)


def arrays(dtype: str, rows: int, groups: int) -> tuple[Any, Any]:
    return tuple(jnp.asarray(RANDOM.standard_normal(s), dtype) for s in ((rows, 256), (groups, 256, 128)))  # type: ignore[return-value]


def reference(x: Any, w: Any, sizes: Sequence[int]) -> Any:
    out, start = jnp.zeros((x.shape[0], w.shape[2]), jnp.float32), 0
    for group, size in enumerate(sizes):
        rows = slice(start, start + size)
        out = out.at[rows].set(x[rows].astype(jnp.float32) @ w[group].astype(jnp.float32))
        start += size
    return out


@pytest.mark.parametrize(
    ("sizes", "rows"), [((5, 0, 30, 13), 60), ((16, 16, 0, 16), 48), ((0, 0), 20), ((0, 40), 40)]
)
def test_results_and_gradients(raceless: Callable[..., Any], sizes: tuple[int, ...], rows: int) -> None:
    """Groups that share tiles, that fill them, that are empty; rows of no group, in a last tile that is partial."""
    x, w = arrays("float32", rows, len(sizes))
    d_out = jnp.asarray(RANDOM.standard_normal((rows, 128)), jnp.float32)

    def both(x: Any, w: Any, interpret: Any) -> Any:
        def run(x: Any, w: Any) -> Any:
            return grouped_matmul(x, w, jnp.asarray(sizes, jnp.int32), block=(16, 128, 128), interpret=interpret)

        out, pull = jax.vjp(run, x, w)
        return out, *pull(d_out)

    found = raceless(both, x, w)
    expected, pull = jax.vjp(lambda x, w: reference(x, w, sizes), x, w)
    for ours, theirs in zip(found, (expected, *pull(d_out)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_bfloat16(raceless: Callable[..., Any]) -> None:
    x, w = arrays("bfloat16", 48, 2)
    found = raceless(grouped_matmul, x, w, jnp.asarray([19, 29], jnp.int32), block=(16, 256, 128))
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(found.astype(jnp.float32), reference(x, w, (19, 29)), rtol=1e-2, atol=0.1)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(0, 20), st.sampled_from([8, 16]))
@settings(max_examples=15)
def test_steps(sizes: list[int], spare: int, tile: int) -> None:
    """Every row is its group's in just one step, tiles and groups are visited in order, and each of them once."""
    rows = max(sum(sizes) + spare, 1)
    owner = np.repeat(range(len(sizes)), sizes)
    by_rows, by_groups = (
        grouped_steps.Steps(*map(np.asarray, find(jnp.asarray(sizes, jnp.int32), rows, tile)))
        for find in (grouped_steps.by_rows, grouped_steps.by_groups)
    )
    assert set(by_rows.tiles) == set(range(-(-rows // tile)))
    assert set(by_groups.groups) == set(range(len(sizes)))
    assert (np.diff(by_rows.tiles) >= 0).all() and (np.diff(by_groups.groups) >= 0).all()
    for steps in (by_rows, by_groups):
        found = [
            (row, group)
            for at, group, start, end in zip(*steps, strict=True)
            for row in range(max(at * tile, start), min((at + 1) * tile, end))
        ]
        assert sorted(found) == list(enumerate(owner))


def test_refusals() -> None:
    x, w = arrays("float32", 32, 2)
    sizes = jnp.asarray([16, 16], jnp.int32)
    with pytest.raises(tp.LaunchError, match=r"expected shapes \(m, k\)"):
        grouped_matmul(x[:, :128], w, sizes)
    with pytest.raises(tp.LaunchError, match="int32 sizes, found float32, float32 and float32"):
        grouped_matmul(x, w, sizes.astype(jnp.float32))
    with pytest.raises(tp.LaunchError, match="`k`: expected a multiple of 96, found 256"):
        grouped_matmul(x, w, sizes, block=(16, 96, 128))
