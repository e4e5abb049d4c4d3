"""GPU kernels whose programs share the whole of an output: what none of them stores is garbage."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

import typedpallas as tp

f32 = jnp.float32
X = jax.ShapeDtypeStruct((128, 16), f32)


def _rows(x: Any, o: Any) -> None:
    rows = pl.ds(pl.program_id(0) * 32, 32)
    o[rows, :] = x[rows, :] + 1.0


def _backwards(x: Any, o: Any) -> None:
    rows = pl.ds((pl.num_programs(0) - 1 - pl.program_id(0)) * 32, 32)
    o[rows, :] = x[rows, :] + 1.0


def _from_the_second(x: Any, o: Any) -> None:
    rows = pl.ds(32 + pl.program_id(0) * 32, 32)
    o[rows, :] = x[rows, :] + 1.0


def _added(x: Any, o: Any) -> None:
    plt.atomic_add(o, (jnp.arange(128)[:, None], jnp.arange(16)[None, :]), x[...])


def _by_table(x: Any, table: Any, o: Any) -> None:
    o[table[pl.program_id(0)], :] = x[pl.program_id(0), :]


def _masked(x: Any, o: Any) -> None:
    rows = pl.ds(pl.program_id(0) * 32, 32)
    plt.store(o.at[rows, :], x[rows, :], mask=x[rows, :] > 0)


def _by_one(x: Any, o: Any) -> None:
    @pl.when(pl.program_id(0) == 2)
    def _() -> None:
        o[...] = x[...]


def _run(kernel: Callable[..., None], *grid: int) -> Callable[..., Any]:
    return pl.pallas_call(kernel, out_shape=X, grid=grid)


def _never_stored(run: Callable[..., Any], *args: Any) -> list[str]:
    found = tp.check(run, X, *args, target="h100").diagnostics
    return [item.verdict for item in found if item.rule == "result-never-stored"]


@pytest.mark.parametrize(("kernel", "grid"), [(_rows, 3), (_backwards, 2), (_from_the_second, 3), (_masked, 3)])
def test_rows_that_no_program_has_are_refused(kernel: Callable[..., None], grid: int) -> None:
    assert _never_stored(_run(kernel, grid)) == ["refuted"]


@pytest.mark.parametrize(
    ("kernel", "grid"),
    [(_rows, 4), (_backwards, 4), (_added, 2), (_masked, 4), (_by_one, 4), (_rows, 5)],
)
def test_what_may_be_stored_passes(kernel: Callable[..., None], grid: int) -> None:
    assert _never_stored(_run(kernel, grid)) == []


def test_rows_that_a_table_names_pass() -> None:
    assert _never_stored(_run(_by_table, 128), jax.ShapeDtypeStruct((128,), jnp.int32)) == []


def test_a_large_grid_that_covers_the_rows_passes() -> None:
    wide = jax.ShapeDtypeStruct((32 * 1000, 16), f32)
    run = pl.pallas_call(_rows, out_shape=wide, grid=(1000,))
    assert not [d for d in tp.check(run, wide, target="h100").diagnostics if d.rule == "result-never-stored"]
