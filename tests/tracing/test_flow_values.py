"""Intervals against brute force; cells through operations against element by element."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typedpallas.tracing.flow import cells
from typedpallas.tracing.flow import garbage as flow_garbage
from typedpallas.tracing.flow import numbers as flow_numbers
from typedpallas.tracing.flow import regions as flow_regions
from typedpallas.tracing.flow.masks import Facts
from typedpallas.tracing.flow.regions import Region, Side

WHOLE = st.integers(-9, 9)
BINARY = ["add", "sub", "mul", "div", "rem", "max", "min", "lt", "le", "gt", "ge", "eq", "ne"]


def _equation(name: str) -> Any:
    function = getattr(jax.lax, name)
    return jax.make_jaxpr(function)(np.int32(1), np.int32(1)).jaxpr.eqns[0]


EQUATIONS = {name: _equation(name) for name in BINARY}
NUMPY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": lambda a, b: int(a / b),
    "rem": lambda a, b: a - b * int(a / b),
    "max": max,
    "min": min,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


@given(st.sampled_from(BINARY), WHOLE, st.integers(0, 4), WHOLE, st.integers(0, 4))
def test_an_interval_holds_every_value(name: str, low: int, wide: int, other: int, broad: int) -> None:
    left, right = (low, low + wide), (other, other + broad)
    found = flow_numbers.result(EQUATIONS[name], [left, right])
    divides = name in ("div", "rem")
    values = [
        int(NUMPY[name](a, b))
        for a in range(left[0], left[1] + 1)
        for b in range(right[0], right[1] + 1)
        if b or not divides
    ]
    if found is None:
        assert divides
        return
    assert found[0] <= min(values) and max(values) <= found[1]
    if not wide and not broad:
        assert found == (values[0], values[0])


APART = {**{name: EQUATIONS[name] for name in (*BINARY, "add")}, "and": _equation("bitwise_and")}


@given(st.sampled_from(sorted(APART)), *[st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(1, 6))] * 2)
def test_numbers_a_step_apart_hold_every_value(name: str, left: Any, right: Any) -> None:
    """Steps survive arithmetic only where every value keeps them."""
    values = [[low + step * k for k in range(count + 1)] for low, count, step in (left, right)]
    made = [flow_numbers.Stepped.of(low, low + step * count, step) for low, count, step in (left, right)]
    found = flow_numbers.result(APART[name], made)
    operation = {**NUMPY, "and": lambda a, b: a & b}[name]
    for a in values[0]:
        for b in values[1]:
            if found is None or (name in ("div", "rem") and not b):
                continue
            value, apart = int(operation(a, b)), getattr(found, "step", 1)
            assert found[0] <= value <= found[1] and (value - found[0]) % apart == 0


def test_every_second_turn_has_one_remainder() -> None:
    turns = flow_numbers.Stepped.of(5, 999, 2)
    assert flow_numbers.result(EQUATIONS["rem"], [turns, (2, 2)]) == (1, 1)
    assert flow_numbers.result(EQUATIONS["rem"], [turns, (4, 4)]) == (0, 3)
    further = flow_numbers.result(EQUATIONS["mul"], [(5, 9), (8, 8)])
    assert flow_numbers.result(EQUATIONS["rem"], [further, (8, 8)]) == (0, 0)


def test_what_wraps_around_is_not_known() -> None:
    assert flow_numbers.result(EQUATIONS["mul"], [(1 << 20, 1 << 20), (1 << 20, 1 << 20)]) is None


SHAPE = (4, 6)


@given(st.data())
def test_boxes_read_and_write_as_numpy_does(data: st.DataObject) -> None:
    held = np.array(data.draw(st.lists(st.integers(0, 3), min_size=24, max_size=24)), np.uint8).reshape(SHAPE)
    sides = []
    for extent in SHAPE:
        start = data.draw(st.integers(0, extent - 1))
        sides.append(Side((start, start), data.draw(st.integers(1, extent - start))))
    region = Region(tuple(sides), (0, 1))
    where = tuple(slice(side.start[0], side.start[0] + side.size) for side in sides if side.start)
    found = flow_regions.taken(cells.slim(held), SHAPE, region)
    assert np.array_equal(np.broadcast_to(found, region.shape), held[where])
    code = data.draw(st.integers(0, 3))
    want = held.copy()
    want[where] = code
    assert np.array_equal(np.broadcast_to(flow_regions.stored(cells.slim(held), SHAPE, region, code), SHAPE), want)


def test_a_store_somewhere_leaves_doubt() -> None:
    region = Region((Side(None, 2), Side((0, 0), 6)), (0, 1))
    assert flow_regions.stored(cells.UNWRITTEN, SHAPE, region, cells.MEANT) == cells.MAYBE
    assert flow_regions.stored(cells.MEANT, SHAPE, region, cells.MEANT) == cells.MEANT
    assert flow_regions.taken(cells.UNWRITTEN, SHAPE, region) == cells.UNWRITTEN


def test_a_store_between_two_rows_leaves_the_others_alone() -> None:
    region = Region((Side((1, 2), 1), Side((0, 0), 6)), (0, 1))
    found = np.broadcast_to(flow_regions.stored(cells.SPOILED, SHAPE, region, cells.MEANT), SHAPE)
    assert (found == np.array([[cells.SPOILED], [cells.MAYBE], [cells.MAYBE], [cells.SPOILED]])).all()


HALF = np.where(np.arange(6) < 3, cells.UNWRITTEN, cells.MEANT).astype(np.uint8) * np.ones((4, 1), np.uint8)
ANY, ALL = cells.MAYBE, cells.SPOILED


@pytest.mark.parametrize(
    ("function", "garbage", "want"),
    [
        (lambda x: x + 1.0, cells.UNWRITTEN, ALL),
        (lambda x: x * x, cells.UNWRITTEN, ALL),
        (lambda x: x * 0.0, cells.UNWRITTEN, ANY),
        (lambda x: jnp.exp(x)[:, 3:], HALF, cells.MEANT),
        (lambda x: jnp.exp(x)[:, :3], HALF, ALL),
        (lambda x: jnp.sum(x, axis=1), HALF, ALL),
        (lambda x: jnp.sum(x, axis=0)[3:], HALF, cells.MEANT),
        (lambda x: x @ jnp.ones((6, 2)), HALF, ANY),
        (lambda x: x @ jnp.ones((6, 2)), cells.UNWRITTEN, ALL),
        (lambda x: jax.lax.select(jnp.ones((4, 6), bool), x, jnp.zeros((4, 6))), cells.UNWRITTEN, ANY),
        (lambda x: jax.lax.broadcast_in_dim(x[0, 3:], (2, 3), (1,)), HALF, cells.MEANT),
        (lambda x: jnp.sort(x), HALF, ANY),
    ],
)
def test_garbage_through_operations(function: Any, garbage: Any, want: int) -> None:
    jaxpr = jax.make_jaxpr(function)(jnp.zeros((4, 6))).jaxpr
    known: dict[Any, Any] = {jaxpr.invars[0]: garbage}
    made = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}

    def walk(jaxpr: Any, known: dict[Any, Any]) -> list[Any]:
        for eqn in jaxpr.eqns:
            parts = [cells.MEANT if hasattr(a, "val") else known.get(a, cells.MEANT) for a in eqn.invars]
            if eqn.primitive.name in ("jit", "pjit"):
                inner = eqn.params["jaxpr"].jaxpr
                results = walk(inner, dict(zip(inner.invars, parts, strict=True)))
                known.update(zip(eqn.outvars, results, strict=True))
            else:
                known[eqn.outvars[0]] = flow_garbage.through(eqn, parts, Facts(made))
        return [known.get(a, cells.MEANT) for a in jaxpr.outvars]

    assert cells.equal(walk(jaxpr, known)[0], want)
