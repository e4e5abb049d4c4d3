"""Copies whose starts and waits hang on data: wrong wherever the data say so, right whatever they say."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp

F32 = jnp.float32
X, TABLE = jax.ShapeDtypeStruct((64, 128), F32), jax.ShapeDtypeStruct((4,), jnp.int32)
BLOCK = jax.ShapeDtypeStruct((8, 128), F32)
LEFT, HANG, EARLY = "copy-not-waited", "copy-waited-twice", "read-before-wait"

type Body = Callable[[Any, Any, Any, Any, Any], None]
type Wanted = tuple[str, str, str] | None
"""The rule, the verdict and the case that the witness begins with; none where the kernel is right."""

KERNELS: list[tuple[Body, Wanted]] = []


def kernel(wanted: Wanted = None) -> Callable[[Body], Body]:
    """Enter a kernel of a table of numbers, an array, a result, two slots and two semaphores."""

    def enter(body: Body) -> Body:
        KERNELS.append((body, wanted))
        return body

    return enter


def copy(x: Any, k: Any, slots: Any, done: Any, at: Any = 0) -> Any:
    """The ``k``-th block into a slot."""
    rows = pl.ds(8 * k, 8) if isinstance(k, int) else pl.ds(pl.multiple_of(8 * k, 8), 8)
    return pltpu.make_async_copy(x.at[rows], slots.at[at], done.at[at])


def launch(body: Body, grid: int = 1) -> Callable[..., Any]:
    def whole(n: Any, x: Any, o: Any, slots: Any, done: Any) -> None:
        o[...] = jnp.zeros_like(o)
        slots[...] = jnp.zeros_like(slots)
        body(n, x, o, slots, done)

    def run(n: Any, x: Any, interpret: Any = False) -> Any:
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(grid,),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec((8, 128), lambda i, n: (0, 0)),
            scratch_shapes=[pltpu.VMEM((2, 8, 128), F32), pltpu.SemaphoreType.DMA((2,))],
        )
        return pl.pallas_call(whole, out_shape=BLOCK, grid_spec=spec, interpret=interpret)(n, x)

    return run


def started(condition: Any, *args: Any) -> None:
    pl.when(condition)(lambda: copy(*args).start())


def awaited(condition: Any, *args: Any) -> None:
    pl.when(condition)(lambda: copy(*args).wait())


@kernel()
def both_under_one_condition(n, x, o, slots, done):
    started(n[0] > 0, x, 0, slots, done)
    awaited(n[0] > 0, x, 0, slots, done)


@kernel()
def both_under_the_same_condition_in_other_words(n, x, o, slots, done):
    started(n[0] > 2, x, 0, slots, done)
    awaited(jnp.logical_not(n[0] < 3), x, 0, slots, done)


@kernel((HANG, "refuted", "where `n[0]` is 0"))
def the_wait_comes_always(n, x, o, slots, done):
    started(n[0] > 0, x, 0, slots, done)
    copy(x, 0, slots, done).wait()


@kernel((LEFT, "refuted", "where `n[0]` is 0"))
def the_start_comes_always(n, x, o, slots, done):
    copy(x, 0, slots, done).start()
    awaited(n[0] > 0, x, 0, slots, done)


@kernel((HANG, "refuted", "where `n[1]` is 0"))
def the_wait_comes_where_the_start_does_not(n, x, o, slots, done):
    started(n[1] != 0, x, 0, slots, done)
    awaited(n[1] == 0, x, 0, slots, done)


@kernel()
def two_numbers_that_may_go_together(n, x, o, slots, done):
    started(n[0] > 0, x, 0, slots, done)
    awaited(n[1] > 0, x, 0, slots, done)


@kernel((LEFT, "open", "where `n[0]` is 1"))
def conditions_that_differ_for_one_number(n, x, o, slots, done):
    started(n[0] > 0, x, 0, slots, done)
    awaited(n[0] > 1, x, 0, slots, done)


@kernel((EARLY, "refuted", "where `n[0]` is 0"))
def read_where_the_wait_comes_later(n, x, o, slots, done):
    copy(x, 0, slots, done).start()
    awaited(n[0] > 0, x, 0, slots, done)
    o[...] = slots[0]
    awaited(n[0] <= 0, x, 0, slots, done)


@kernel()
def read_only_where_it_was_waited_for(n, x, o, slots, done):
    copy(x, 0, slots, done).start()
    awaited(n[0] > 0, x, 0, slots, done)

    @pl.when(n[0] > 0)
    def _():
        o[...] = slots[0]

    awaited(n[0] <= 0, x, 0, slots, done)


@kernel()
def a_flag_that_the_kernel_keeps_itself(n, x, o, slots, done):
    """The first element of the result says whether a copy is under way: it is 0, for it was set."""
    started(o[0, 0] == 0.0, x, 0, slots, done)
    copy(x, 0, slots, done).wait()


@kernel()
def a_condition_that_is_meant_for_later_steps(n, x, o, slots, done):
    """Nothing but a length of 0, which need not come, makes the first step go wrong."""
    i = pl.program_id(0)
    started(i == 0, x, 0, slots, done)
    awaited(8 * i < n[0], x, 0, slots, done)
    started((i < pl.num_programs(0) - 1) & (8 * (i + 1) < n[0]), x, 0, slots, done)


@kernel((LEFT, "refuted", "where `n[0]` is 1"))
def each_turn_starts_two_and_waits_for_one(n, x, o, slots, done):
    @pl.loop(0, n[0])
    def _(i):
        copy(x, 0, slots, done, 0).start()
        pltpu.make_async_copy(x.at[8:16], slots.at[1], done.at[0]).start()
        copy(x, 0, slots, done, 0).wait()


@kernel((HANG, "refuted", "where `n[0]` is 1"))
def each_turn_waits_and_none_starts(n, x, o, slots, done):
    @pl.loop(0, n[0])
    def _(i):
        copy(x, 0, slots, done).wait()


@kernel((LEFT, "open", "where `n[0]` is 2"))
def one_wait_after_the_loop(n, x, o, slots, done):
    @pl.loop(0, n[0])
    def _(i):
        copy(x, i % 8, slots, done).start()
        o[...] += 1.0

    copy(x, 0, slots, done).wait()


@kernel()
def each_turn_starts_and_waits(n, x, o, slots, done):
    @pl.loop(0, n[0])
    def _(i):
        copy(x, i % 8, slots, done).start()
        copy(x, i % 8, slots, done).wait()
        o[...] += slots[0]


@kernel()
def each_turn_starts_the_next(n, x, o, slots, done):
    started(n[0] > 0, x, 0, slots, done)

    @pl.loop(0, n[0])
    def _(i):
        started(i + 1 < n[0], x, (i + 1) % 8, slots, done, (i + 1) % 2)
        copy(x, i % 8, slots, done, i % 2).wait()
        o[...] += slots[i % 2]


@kernel((LEFT, "refuted", "where `n[0]` is 1"))
def the_last_turn_starts_one_more(n, x, o, slots, done):
    started(n[0] > 0, x, 0, slots, done)

    @pl.loop(0, n[0])
    def _(i):
        copy(x, (i + 1) % 8, slots, done, (i + 1) % 2).start()
        copy(x, i % 8, slots, done, i % 2).wait()
        o[...] += slots[i % 2]


@kernel()
def the_first_is_started_for_at_least_one_turn(n, x, o, slots, done):
    """Nobody says that there may be none."""
    copy(x, 0, slots, done).start()

    @pl.loop(0, n[0])
    def _(i):
        started(i + 1 < n[0], x, (i + 1) % 8, slots, done, (i + 1) % 2)
        copy(x, i % 8, slots, done, i % 2).wait()
        o[...] += slots[i % 2]


@kernel((LEFT, "refuted", "where `n[0]` is 1"))
def as_many_turns_as_blocks_hold_the_length(n, x, o, slots, done):
    @pl.loop(0, pl.cdiv(n[0], 128))
    def _(i):
        copy(x, i % 8, slots, done, i % 2).start()
        awaited(i > 0, x, 0, slots, done, (i + 1) % 2)


@kernel((LEFT, "refuted", "where the loop of line"))
def from_one_number_to_another(n, x, o, slots, done):
    @pl.loop(n[0], n[1])
    def _(i):
        copy(x, 0, slots, done, 0).start()
        pltpu.make_async_copy(x.at[8:16], slots.at[1], done.at[0]).start()
        copy(x, 0, slots, done, 0).wait()


@kernel((LEFT, "refuted", "where the condition of line"))
def a_condition_on_two_numbers(n, x, o, slots, done):
    copy(x, 0, slots, done).start()
    awaited(n[0] < n[1], x, 0, slots, done)


@kernel()
def one_condition_on_two_numbers(n, x, o, slots, done):
    started(n[0] < n[1], x, 0, slots, done)
    awaited(n[0] < n[1], x, 0, slots, done)


@kernel()
def a_while_loop_that_the_data_end(n, x, o, slots, done):
    def turn(k):
        copy(x, k % 8, slots, done).start()
        copy(x, k % 8, slots, done).wait()
        return k + 1 + n[1] * 0

    lax.while_loop(lambda k: k < n[0], turn, jnp.int32(0))


each = pytest.mark.parametrize("body, wanted", KERNELS, ids=[body.__name__ for body, _ in KERNELS])


@each
@pytest.mark.parametrize("grid", [1, 4])
def test_what_is_said(body: Body, wanted: Wanted, grid: int) -> None:
    said = tp.check(launch(body, grid), TABLE, X, target="tpu-v5e").diagnostics
    assert [(item.rule, item.verdict) for item in said] == ([wanted[:2]] if wanted else []), said
    for item in said:
        assert wanted is not None and item.witness.startswith(wanted[2]) and item.help
        assert bool(item.notes) == (item.verdict == "open")


def test_conditions_are_not_followed_through_memory_that_is_written() -> None:
    """A table that the kernel changes may say one thing at the start and another at the wait."""

    def body(n: Any, x: Any, o: Any, slots: Any, done: Any) -> None:
        started(n[0] > 0, x, 0, slots, done)
        n[0] = 1
        awaited(n[0] > 0, x, 0, slots, done)

    assert not tp.check(launch(body), TABLE, X, target="tpu-v5e").diagnostics


@pytest.mark.parametrize(
    "body", [body for body, wanted in KERNELS if wanted is None and "two_numbers_that" not in body.__name__]
)
@pytest.mark.parametrize("number", [1, 4])
def test_right_ones_end_in_tpu_interpret_mode(body: Body, number: int) -> None:
    mode = pltpu.InterpretParams(uninitialized_memory="nan")
    x, table = jnp.ones(X.shape, F32), jnp.asarray(np.array([number, number + 1, 0, 0]), jnp.int32)
    assert np.isfinite(np.asarray(launch(body)(table, x, interpret=mode))).all()
