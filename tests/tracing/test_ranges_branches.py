"""What a branch or a loop hands on as a start: Mosaic sees a choice of what is known before, and nothing else."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl

import typedpallas as tp

X = jax.ShapeDtypeStruct((64, 256), jnp.float32)


def _outside(i: Any, further: Callable[[Any], Any]) -> Any:
    at = i * 16
    return lax.cond(i > 1, lambda: further(at), lambda: 0)


TAKEN: dict[str, Callable[[Any], Any]] = {
    "made before": lambda i: _outside(i, lambda at: at),
    "folded to what was made before": lambda i: _outside(i, lambda at: at * 1 + 16 - 16),
    "negated twice": lambda i: _outside(i, lambda at: 0 - (0 - at)),
    "constants": lambda i: lax.cond(i > 1, lambda: 16, lambda: 0),
    "multiplied after": lambda i: lax.cond(i > 1, lambda: i + 0, lambda: 0) * 16,
    "promised after": lambda i: pl.multiple_of(lax.cond(i > 1, lambda: i * 16, lambda: 0), 16),
    "after one turn": lambda i: lax.fori_loop(0, 1, lambda _, at: at + 16, 0),
    "after turns that are written out": lambda i: lax.fori_loop(0, 3, lambda _, at: at + 16, 0, unroll=True),
    "as it was": lambda i: lax.fori_loop(0, 3, lambda _, at: at, 16),
    "counted and multiplied": lambda i: lax.fori_loop(0, 3, lambda _, at: at + 1, 0) * 16,
}
REFUSED: dict[str, Callable[[Any], Any]] = {
    "made inside": lambda i: lax.cond(i > 1, lambda: i * 16, lambda: 0),
    "made inside, a minimum": lambda i: lax.cond(i > 1, lambda: jnp.minimum(i * 16, 32), lambda: 16),
    "made in both": lambda i: lax.cond(i > 1, lambda: i * 16, lambda: i * 16),
    "promised inside": lambda i: lax.cond(i > 1, lambda: pl.multiple_of(i * 16, 16), lambda: 0),
    "a branch inside": lambda i: lax.cond(i > 1, lambda: lax.cond(i > 2, lambda: 32, lambda: 16), lambda: 0),
    "one of four": lambda i: lax.switch(i, [lambda: 0, lambda: 16, lambda: 32, lambda: 48]),
    "after turns": lambda i: lax.fori_loop(0, 3, lambda _, at: at + 16, 0),
    "after any number of turns": lambda i: lax.fori_loop(0, i, lambda _, at: at + 16, 0),
}


def _picks(start: Callable[[Any], Any]) -> Callable[..., Any]:
    def kernel(x: Any, o: Any) -> None:
        o[...] = x[pl.ds(start(pl.program_id(0)), 16), :]

    return pl.pallas_call(
        kernel,
        out_shape=X,
        grid=(4,),
        in_specs=[pl.BlockSpec((64, 256), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((16, 256), lambda i: (i, 0)),
    )


def _refused(start: Callable[[Any], Any]) -> list[str]:
    report = tp.check(_picks(start), X, target="tpu-v5e")
    return [item.rule for item in report.diagnostics if item.verdict == "refuted"]


@pytest.mark.parametrize("start", TAKEN.values(), ids=TAKEN)
def test_taken(start: Callable[[Any], Any]) -> None:
    assert "unaligned-slice" not in _refused(start)
    tp.compile(_picks(start), X, target="tpu-v5e")


@pytest.mark.parametrize("start", REFUSED.values(), ids=REFUSED)
def test_refused(start: Callable[[Any], Any]) -> None:
    assert "unaligned-slice" in _refused(start)
    with pytest.raises(tp.CompileError, match="cannot statically prove"):
        tp.compile(_picks(start), X, target="tpu-v5e")
