"""Entries that a table of known contents does not have, at places that other tables choose."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp

STEPS, PLACES = 3, 4
X = jax.ShapeDtypeStruct((8 * STEPS, 128), jnp.float32)
TABLE = np.zeros((STEPS, PLACES), np.int32)


def launched(take: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    """As many turns in each step as its length says; ``take`` gets the table, the step and the turn."""

    def body(lengths: Any, places: Any, x: Any, o: Any) -> None:
        step = pl.program_id(0)
        o[...] = x[...]

        @pl.loop(0, lengths[step])
        def _(turn: Any) -> None:
            o[...] += take(places, step, turn).astype(jnp.float32)

    rows = pl.BlockSpec((8, 128), lambda i, *_: (i, 0))
    grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=2, grid=(STEPS,), in_specs=[rows], out_specs=rows)
    return pl.pallas_call(body, out_shape=X, grid_spec=grid)


def guarded(places: Any, step: Any, turn: Any) -> Any:
    return jax.lax.cond(turn + 1 < PLACES, lambda: places[step, turn + 1], lambda: jnp.int32(0))


def chosen(places: Any, step: Any, turn: Any) -> Any:
    return jnp.where(turn + 1 < PLACES, places[step, turn + 1], 0)


@pytest.mark.parametrize(
    "take, verdict",
    [
        (lambda places, step, turn: places[step, turn], None),
        (lambda places, step, turn: places[step, turn + 1], "refuted"),
        (lambda places, step, turn: places[step, turn - 1], "refuted"),
        (guarded, None),
        (chosen, "open"),
    ],
    ids=["inside", "one further", "one before", "guarded", "chosen"],
)
def test_what_tables_choose(take: Callable[..., Any], verdict: str | None) -> None:
    run = launched(take)
    said = tp.check(run, np.array([2, 0, PLACES], np.int32), TABLE, X, target="tpu-v5e").diagnostics
    assert [(item.rule, item.verdict) for item in said] == ([("index-out-of-bounds", verdict)] if verdict else [])
    assert all("program_id(0) =" in item.witness for item in said)


def test_shorter_lengths_and_unknown_ones_are_left_alone() -> None:
    run = launched(lambda places, step, turn: places[step, turn + 1])
    assert not tp.check(run, np.array([2, 0, PLACES - 1], np.int32), TABLE, X, target="tpu-v5e").diagnostics
    assert not tp.check(run, jax.ShapeDtypeStruct((STEPS,), jnp.int32), TABLE, X, target="tpu-v5e").diagnostics
