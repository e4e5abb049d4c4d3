"""Padding that is compared, converted or chosen by: flagged exactly where another filling changes the result.

NaN, which interpret modes fill it with, is no judge of these: what a comparison says of it is definite, and a TPU has
other numbers there.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import typedpallas as tp

f32, COLUMNS, WIDTH, STEPS = jnp.float32, 640, 256, 3
FILLINGS = (-7, 8, 300)


def _position() -> Any:
    return pl.program_id(0) * WIDTH + jax.lax.broadcasted_iota(jnp.int32, (8, WIDTH), 1)


def _inside() -> Any:
    return _position() < COLUMNS


def _sum(x: Any) -> Any:
    return jnp.sum(x, 1, keepdims=True).astype(f32)


def _best(x: Any) -> Any:
    return jnp.max(x, 1, keepdims=True).astype(f32)


def _place(x: Any) -> Any:
    return jnp.argmax(x, axis=1)[:, None].astype(f32)


BODIES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "counted": (lambda x: _sum((x > 0).astype(f32)), True),
    "counted and masked": (lambda x: _sum(jnp.where(_inside(), (x > 0).astype(f32), 0.0)), False),
    "counted where it lies inside": (lambda x: _sum(((x > 0) & _inside()).astype(f32)), False),
    "counted or outside": (lambda x: _sum(((x > 0) | jnp.logical_not(_inside())).astype(f32)), False),
    "not counted": (lambda x: _sum(jnp.logical_not(x > 0).astype(f32)), True),
    "whole parts": (lambda x: _sum(x.astype(jnp.int32)), True),
    "whole parts masked": (lambda x: _sum(jnp.where(_inside(), x.astype(jnp.int32), 0)), False),
    "the positive ones": (lambda x: _sum(jnp.where(x > 0, x, 0.0)), True),
    "one or zero": (lambda x: _sum(jnp.where(x > 0, 1.0, 0.0)), True),
    "always one": (lambda x: _sum(jnp.where(x > 0, 1.0, 1.0)), False),
    "compared with the largest": (lambda x: _sum((x == _best(jnp.where(_inside(), x, -99.0))).astype(f32)), True),
    "numbers only": (lambda x: _sum(jnp.where(jnp.isfinite(x), _inside().astype(f32), 0.0)), False),
    "below infinity": (lambda x: _sum((x < jnp.inf).astype(f32)), False),
    "equal to itself": (lambda x: _sum((x == x).astype(f32)), False),
    "the place of the largest": (_place, True),
    "the place of the largest inside": (lambda x: _place(jnp.where(_inside(), x, -99.0)), False),
    "some of them": (lambda x: _best((x > -100).astype(f32)), False),
    "times the mask": (lambda x: _sum((x > 0).astype(f32) * jnp.where(_inside(), 1.0, 0.0)), False),
    "a product with zeros": (
        lambda x: jnp.dot((x > 0).astype(f32), jnp.where(_inside(), 1.0, 0.0).T, preferred_element_type=f32)[:, :1],
        False,
    ),
}


def _run(body: Callable[[Any], Any], dtype: Any, interpret: Any = False) -> Callable[[Any], Any]:
    def kernel(x: Any, o: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += body(x[...])

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 1), f32),
        grid=(STEPS,),
        in_specs=[pl.BlockSpec((8, WIDTH), lambda k: (0, k))],
        out_specs=pl.BlockSpec((8, 1), lambda k: (0, 0)),
        interpret=interpret,
    )


@pytest.mark.parametrize("dtype", [f32, jnp.int32], ids=["floats", "whole"])
@pytest.mark.parametrize("name", BODIES)
def test_it_is_flagged_exactly_where_another_filling_changes_the_result(name: str, dtype: Any) -> None:
    body, flagged = BODIES[name]
    report = tp.check(_run(body, dtype), jax.ShapeDtypeStruct((8, COLUMNS), dtype), target="tpu-v5e")
    found = {item.rule for item in report.diagnostics if item.verdict == "refuted"}
    array = np.random.default_rng(0).integers(-9, 9, (8, COLUMNS))
    filled = [np.pad(array, ((0, 0), (0, STEPS * WIDTH - COLUMNS)), constant_values=value) for value in FILLINGS]
    results = [np.asarray(_run(body, dtype, interpret=True)(jnp.asarray(each, dtype))) for each in filled]
    assert any(not np.array_equal(results[0], other) for other in results[1:]) == flagged
    assert ("unmasked-padding" in found) == flagged, report
