"""Index maps over tables: what is known of the tables, and what is said when it is not."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas.starts.terms import Leaf, Terms
from typedpallas.tracing import jaxapi
from typedpallas.tracing.outer import tables as table_facts
from typedpallas.tracing.ranges import guarded as guarded_bounds
from typedpallas.tracing.walk import kernels

_X = jax.ShapeDtypeStruct((512, 128), jnp.float32)
_TABLE = jax.ShapeDtypeStruct((4,), jnp.int32)


def _copy(table_ref: Any, x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...]


def _call(table: Any, x: Any, *, reads: bool = True, writes: bool = False, steps: Any = 4, **map_: Any) -> Any:
    """Four blocks of 128 rows; ``reads`` and ``writes``: whether the input's, the output's block is the table's."""
    index: Callable[..., Any] = map_.get("index", lambda i, table: (table[i], 0))
    plain: Callable[..., Any] = lambda i, table: (i, 0)  # noqa: E731
    return pl.pallas_call(
        _copy,
        out_shape=jax.ShapeDtypeStruct((512, 128), jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(steps,),
            in_specs=[pl.BlockSpec((128, 128), index if reads else plain)],
            out_specs=pl.BlockSpec((128, 128), index if writes else plain),
        ),
    )(table, x)


def _said(fn: Callable[..., Any], *args: Any, **more: Any) -> list[tuple[str, str]]:
    report = tp.check(fn, *args, target="tpu-v5e", **more)
    return [(item.rule, item.verdict) for item in report.diagnostics]


def test_a_table_of_unknown_contents_leaves_the_range_open() -> None:
    assert _said(_call, _TABLE, _X) == [("block-out-of-range", "open")]


@pytest.mark.parametrize("dtype", [np.int32, np.int8])
def test_a_constant_table_is_followed(dtype: Any) -> None:
    good, bad = np.array([3, 2, 1, 0], dtype), np.array([0, 1, 4, 2], dtype)

    def call(table: Any, x: Any) -> Any:
        return _call(
            jnp.asarray(table).reshape(2, 2)[::-1].reshape(4), x, index=lambda i, t: (t[i].astype(jnp.int32), 0)
        )

    assert _said(lambda x: call(good, x), _X) == []
    report = tp.check(lambda x: call(bad, x), _X, target="tpu-v5e")
    (refuted,) = report.diagnostics
    assert refuted.rule == "block-out-of-range" and refuted.verdict == "refuted"
    assert "grid point (0,) gives block (4, 0)" in str(report)
    assert "there `table_ref[0]` holds 4" in str(report)
    assert report.given == ()


def test_a_table_that_is_given_is_followed_and_named() -> None:
    report = tp.check(_call, np.array([0, 1, 3, 2], np.int32), _X, target="tpu-v5e")
    assert report.diagnostics == () and report.given == ("table",)
    assert "with `table` as given" in str(report)
    assert _said(_call, np.array([0, 1, 9, 2], np.int32), _X) == [("block-out-of-range", "refuted")]
    assert _said(_call, np.array([0, -1, 1, 2], np.int32), _X) == [("block-out-of-range", "refuted")]


def test_a_table_that_leads_outputs_is_judged_for_coverage() -> None:
    def writes(table: Any, x: Any) -> Any:
        return _call(jnp.clip(table, 0, 3), x, writes=True)

    assert _said(writes, _TABLE, _X) == [("block-never-written", "open")]
    assert _said(writes, np.arange(4, dtype=np.int32), _X) == []
    assert _said(writes, np.array([0, 1, 1, 3], np.int32), _X) == [("block-never-written", "refuted")]


def test_a_promise_about_a_table_closes_the_question() -> None:
    assert _said(_call, _TABLE, _X, assume={"table_ref": (0, 3)}) == []
    assert _said(_call, _TABLE, _X, assume={"table_ref": (0, 4)}) == [("block-out-of-range", "open")]
    with pytest.raises(ValueError, match="names `tabel`, but no kernel has such a table; there are `table_ref`"):
        tp.check(_call, _TABLE, _X, assume={"tabel": (0, 3)})


def _grouped(sizes: Any, x: Any) -> Any:
    """The way of megablox: each group's number, once for each of its tiles."""
    return _call(jnp.repeat(jnp.arange(4, dtype=jnp.int32), sizes, total_repeat_length=4), x)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: jnp.clip(t, 0, 3),
        lambda t: t % 4,
        lambda t: jnp.where((t >= 0) & (t < 4), t, 0),
        lambda t: jnp.argsort(t).astype(jnp.int32),
        lambda t: jnp.argmax(jnp.stack([t] * 4, 1), axis=1).astype(jnp.int32),
        lambda t: jnp.cumsum((t[1:] > 0).astype(jnp.int32), axis=0).repeat(2)[:4],
        lambda t: jnp.arange(4)[jnp.clip(t, 0, 3)],
        lambda t: jnp.minimum(jnp.abs(jnp.maximum(t, -3)), 3),
        lambda t: jax.lax.cond(t[0] > 0, lambda: jnp.zeros(4, jnp.int32), lambda: jnp.full(4, 3, jnp.int32)),
        lambda t: jnp.sum(t > 0) // 2 + jnp.zeros(4, jnp.int32),
        lambda t: jax.lax.top_k(t, 4)[1],
    ],
)
def test_tables_that_are_computed_within_bounds_are_proved(make: Callable[[Any], Any]) -> None:
    assert _said(lambda t, x: _call(make(t), x), _TABLE, _X) == []


@pytest.mark.parametrize(
    "make", [lambda t: jnp.clip(t, 0, 4), lambda t: t + 1, lambda t: jnp.cumsum(t % 4), lambda t: -(t % 2)]
)
def test_tables_that_may_leave_the_array_stay_open(make: Callable[[Any], Any]) -> None:
    assert _said(lambda t, x: _call(make(t), x), _TABLE, _X) == [("block-out-of-range", "open")]


def test_repeated_group_numbers_are_proved_for_any_sizes() -> None:
    assert _said(_grouped, _TABLE, _X) == []


def test_a_map_that_guards_its_own_read_is_proved() -> None:
    """As ragged attention does: past a row's length, the block that is already there."""

    def index(i: Any, lengths: Any) -> Any:
        length = lengths[0]
        return jnp.where(i * 128 < length, i, jnp.maximum(0, jax.lax.div(length, 128) - 1)), 0

    def unguarded(i: Any, lengths: Any) -> Any:
        return jnp.where(i * 128 < lengths[0], i, jax.lax.div(lengths[0], 128) - 1), 0

    assert _said(lambda t, x: _call(t, x, index=index), _TABLE, _X) == []
    assert _said(lambda t, x: _call(t, x, index=unguarded), _TABLE, _X) == [("block-out-of-range", "open")]


def test_grid_bounds_that_follow_from_what_is_given_count() -> None:
    def call(table: Any, count: Any, x: Any) -> Any:
        return _call(table, x, reads=True, steps=count)

    table = np.array([0, 1, 2, 9], np.int32)
    assert _said(call, table, np.int32(4), _X) == [("block-out-of-range", "refuted")]
    assert _said(call, table, np.int32(3), _X) == [("block-never-written", "refuted")]
    assert _said(call, np.arange(4, dtype=np.int32), np.int32(4), _X) == []


def test_tables_are_followed_through_maps_of_the_program() -> None:
    table = np.arange(4, dtype=np.int32)[::-1].copy()

    @jax.custom_vjp
    def call(table: Any, x: Any) -> Any:
        return _call(table, x)

    call.defvjp(lambda table, x: (call(table, x), None), lambda res, g: (None, g))
    looped = lambda x: jax.lax.scan(lambda carry, _: (call(jnp.asarray(table), carry), None), x, None, length=2)[0]  # noqa: E731
    assert _said(jax.jit(lambda x: call(jnp.asarray(table), x)), _X) == []
    assert _said(looped, _X) == []
    stacked = jax.ShapeDtypeStruct((2, *_X.shape), jnp.float32)
    assert _said(jax.vmap(lambda x: call(jnp.asarray(table), x)), stacked) == []


_OPERATIONS = ("add", "sub", "mul", "min", "max", "div", "rem", "lt", "le", "eq", "ne", "ge", "and", "or")


@st.composite
def _expressions(draw: st.DrawFn) -> tuple[Terms, Any, list[Any]]:
    """A term over three leaves, with the leaves."""
    terms = Terms()
    leaves = []
    for number in range(3):
        low = draw(st.integers(-6, 4))
        leaves.append(Leaf(f"v{number}", low, low + draw(st.integers(0, 4))))
    made = [terms.leaf(leaf) for leaf in leaves] + [terms.const(draw(st.integers(-4, 5))) for _ in range(2)]
    for _ in range(draw(st.integers(1, 9))):
        pick = st.sampled_from(made)
        if draw(st.booleans()):
            made.append(terms.apply(draw(st.sampled_from(_OPERATIONS)), draw(pick), draw(pick)))
        else:
            which = terms.apply(draw(st.sampled_from(("lt", "le", "eq", "ne", "gt", "ge"))), draw(pick), draw(pick))
            made.append(terms.apply("select", which, draw(pick), draw(pick)))
    return terms, made[-1], leaves


@settings(max_examples=150, deadline=None)
@given(_expressions(), st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_bounds_hold_every_value(drawn: Any, offsets: list[int]) -> None:
    terms, term, leaves = drawn
    values = [min(leaf.low + offset, leaf.high) for leaf, offset in zip(leaves, offsets, strict=True)]
    exact = term
    for leaf, value in zip(leaves, values, strict=True):
        exact = terms.replaced(exact, leaf, value)
    if exact.const is None:
        return  # a division by zero
    low, high = guarded_bounds.Bounds({}, {}).of(term)
    assert int(np.min(low)) <= exact.const <= int(np.max(high))
    first = (np.array([values[0], leaves[0].low]),) * 2
    low, high = guarded_bounds.Bounds({terms.leaf(leaves[0]): first}, {}).of(term)
    assert int(np.ravel(low)[0]) <= exact.const <= int(np.ravel(high)[0])


_STEPS: list[Callable[[Any], Any]] = [
    lambda t: t + 3,
    lambda t: t * 2 - 5,
    lambda t: jnp.cumsum(t % 3),
    lambda t: jnp.clip(t, -2, 5),
    lambda t: t // 4,
    lambda t: t % 7,
    lambda t: jnp.roll(t, 1),
    lambda t: jnp.where(t > 2, t, 2 - t),
    lambda t: jnp.sort(t)[::-1],
    lambda t: jnp.arange(6)[jnp.clip(t, 0, 5)],
    lambda t: jnp.take(jnp.arange(6) * 2, t, mode="clip"),
    lambda t: jnp.repeat(jnp.arange(6), t % 3, total_repeat_length=6),
    lambda t: jnp.concatenate([t[:2], t[2:] - 1]),
    lambda t: t.at[2].set(7),
    lambda t: jnp.zeros(6, jnp.int32).at[t % 6].add(1),
    lambda t: (t > 0).astype(jnp.int32) + t.astype(jnp.int8),
    lambda t: jnp.searchsorted(jnp.array([0, 2, 4]), t).astype(jnp.int32),
    lambda t: jnp.max(t) - t,
    lambda t: jnp.sum(t % 5) - t % 5,
]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(_STEPS), min_size=1, max_size=4), st.lists(st.integers(-9, 9), min_size=6, max_size=6)
)
def test_bounds_of_computed_tables_hold_what_jax_computes(steps: Any, entries: list[int]) -> None:
    def table(start: Any) -> Any:
        for step in steps:
            start = step(start).astype(jnp.int32)
        return start

    def call(start: Any, x: Any) -> Any:
        return _call(table(start), x)

    start = np.array(entries, np.int32)
    expected = np.asarray(table(jnp.asarray(start)))
    jaxpr = jaxapi.trace(call, (jax.ShapeDtypeStruct((6,), jnp.int32), _X))
    (bounded,) = kernels(jaxpr, "mosaic_tpu")
    ((low, high),) = (ends for ends in table_facts.of(bounded).ends if ends is not None)
    assert low <= expected.min() and expected.max() <= high
    known = {jaxapi.open_jaxpr(jaxpr).invars[0]: start}
    (kernel,) = kernels(jaxpr, "mosaic_tpu", known=known)
    (contents,) = table_facts.of(kernel).contents
    assert contents is not None and (contents == expected).all()


def test_debug_names_the_entry_that_leads_astray() -> None:
    x = np.arange(512 * 128, dtype=np.float32).reshape(512, 128)
    run = tp.debug(jax.jit(lambda table, x: _call(table * 2, x) + 1.0))
    found = run(np.array([1, 0, 0, 1], np.int32), x)
    assert (np.asarray(found) == x.reshape(4, 128, 128)[[2, 0, 0, 2]].reshape(512, 128) + 1.0).all()
    with pytest.raises(tp.PlacementError, match="block-out-of-range") as caught:
        run(np.array([1, 0, 2, 1], np.int32), x)
    assert "grid point (2,) gives block (4, 0)" in str(caught.value)
    assert "there `table_ref[2]` holds 4" in str(caught.value)


def test_debug_follows_loops_and_branches() -> None:
    x = np.ones((512, 128), np.float32)

    def looped(tables: Any, x: Any) -> Any:
        total, each = jax.lax.scan(lambda carry, table: (_call(table, carry), table.sum()), x, tables)
        return jax.lax.while_loop(lambda v: v[0, 0] < 3.0, lambda v: v + 1.0, total), each

    def branched(flag: Any, table: Any, x: Any) -> Any:
        return jax.lax.cond(flag, lambda: _call(table, x), lambda: x)

    good = np.tile(np.arange(4, dtype=np.int32), (3, 1))
    total, each = tp.debug(looped)(good, x)
    assert np.asarray(total).max() == 3.0 and np.asarray(each).tolist() == [6, 6, 6]
    bad = good.copy()
    bad[2, 1] = -1
    with pytest.raises(tp.PlacementError, match="`x_ref` leaves the array"):
        tp.debug(looped)(bad, x)
    with pytest.raises(tp.PlacementError):
        tp.debug(branched)(True, bad[2], x)
    assert np.asarray(tp.debug(branched)(False, bad[2], x)).all()
