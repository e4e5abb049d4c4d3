"""Kernels that use memory over their grid: right ones that look wrong, and wrong ones that look right.

``wrong`` names the rule; none where the kernel is right. ``unknown`` are wrong ones about which nothing is said yet.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

F32, I32 = jnp.float32, jnp.int32
X = jax.ShapeDtypeStruct((64, 128), F32)
TABLE = jax.ShapeDtypeStruct((8,), I32)
ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
STAYS = pl.BlockSpec((8, 128), lambda i: (0, 0))
VMEM, DMA, REGULAR = pltpu.VMEM((8, 128), F32), pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR
PAGES = pltpu.VMEM((8, 8, 128), F32)
ONE = jax.ShapeDtypeStruct((8, 128), F32)


@dataclass(frozen=True)
class Kernel:
    """A kernel as ``run(*args)``, what is wrong with it, and whether TPU interpret mode can be asked."""

    name: str
    run: Callable[..., Any]
    args: tuple[Any, ...]
    wrong: str | None
    interpreted: bool


KERNELS: list[Kernel] = []


def kernel(
    wrong: str | None = None,
    *,
    out: Any = ONE,
    in_specs: Any = (ROWS,),
    out_specs: Any = STAYS,
    grid: tuple[int, ...] = (8,),
    scratch: tuple[Any, ...] = (),
    args: tuple[Any, ...] = (X,),
    interpreted: bool = True,
    **more: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Enter a kernel; by default it goes over the eight blocks of ``X`` and its one output block stays."""

    def enter(body: Callable[..., None]) -> Callable[..., None]:
        def run(*operands: Any, interpret: Any = False) -> Any:
            return pl.pallas_call(
                body,
                out_shape=out,
                grid=grid,
                in_specs=list(in_specs),
                out_specs=out_specs,
                scratch_shapes=list(scratch),
                interpret=interpret,
                **more,
            )(*operands)

        KERNELS.append(Kernel(body.__name__, run, args, wrong, interpreted))
        return body

    return enter


@kernel()
def set_first(x, o):
    @pl.when(pl.program_id(0) == 0)
    def _():
        o[...] = jnp.zeros_like(o)

    o[...] += x[...]


@kernel("read-before-write")
def never_set(x, o):
    o[...] += x[...]


@kernel("read-before-write")
def set_at_the_second_step(x, o):
    @pl.when(pl.program_id(0) == 1)
    def _():
        o[1:, :] = jnp.zeros((7, 128))

    o[...] += x[...]


@kernel()
def set_late_and_whole(x, o):
    @pl.when(pl.program_id(0) == 7)
    def _():
        o[...] = jnp.zeros_like(o)

    o[...] += x[...]


@kernel()
def first_by_select(x, o):
    before = jnp.where(pl.program_id(0) == 0, 0.0, o[...])
    o[...] = before + x[...]


@kernel("read-before-write", out_specs=ROWS, out=X, interpreted=False)
def every_block_starts_anew(x, o):
    """Interpret mode has one window for all blocks, a chip has two in turn."""

    @pl.when(pl.program_id(0) == 0)
    def _():
        o[...] = jnp.zeros_like(o)

    o[...] += x[...]


@kernel(scratch=(VMEM,))
def scratch_stays(x, o, acc):
    @pl.when(pl.program_id(0) == 0)
    def _():
        acc[...] = jnp.zeros_like(acc)

    acc[...] += x[...]

    @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
    def _():
        o[...] = acc[...]


@kernel("read-before-write", scratch=(VMEM,))
def cleared_for_the_next_round_only(x, o, acc):
    acc[...] += x[...]

    @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
    def _():
        o[...] = acc[...]
        acc[...] = jnp.zeros_like(acc)


@kernel(scratch=(VMEM,), out_specs=pl.BlockSpec((8, 128), lambda i: (jnp.maximum(i - 1, 0), 0)), out=X, grid=(9,),
        in_specs=(pl.BlockSpec((8, 128), lambda i: (jnp.minimum(i, 7), 0)),))  # fmt: skip
def one_step_behind(x, o, stage):
    """The first step stores garbage to a block that the second overwrites."""
    o[...] = stage[...] * 2.0
    stage[...] = x[...]


@kernel("read-before-write", scratch=(VMEM,), out_specs=ROWS, out=X)
def one_step_behind_and_kept(x, o, stage):
    o[...] = stage[...] * 2.0
    stage[...] = x[...]


@kernel(scratch=(VMEM,))
def loaded_and_dropped(x, o, acc):
    old = acc[...]
    acc[...] = x[...]
    o[...] = jnp.where(x[...] > 0, x[...], -x[...]) + old[0:8, :] * 0


@kernel(scratch=(pltpu.VMEM((16, 128), F32),))
def half_set_half_used(x, o, acc):
    acc[0:8, :] = x[...]
    whole = acc[...]
    o[...] = whole[0:8, :]


@kernel("read-before-write", scratch=(pltpu.VMEM((16, 128), F32),))
def half_set_whole_used(x, o, acc):
    acc[0:8, :] = x[...]
    o[...] = acc[0:8, :] + acc[8:16, :]


@kernel(scratch=(pltpu.VMEM((16, 128), F32),))
def set_half_by_half_in_a_loop(x, o, acc):
    @pl.loop(0, 2)
    def _(i):
        acc[pl.ds(pl.multiple_of(i * 8, 8), 8), :] = x[...]

    o[...] = acc[0:8, :] + acc[8:16, :]


@kernel("read-before-write", scratch=(pltpu.VMEM((16, 128), F32),))
def one_turn_too_few(x, o, acc):
    @pl.loop(0, 1)
    def _(i):
        acc[pl.ds(pl.multiple_of(i * 8, 8), 8), :] = x[...]

    o[...] = acc[0:8, :] + acc[8:16, :]


@kernel(scratch=(VMEM,), args=(TABLE, X), in_specs=(pl.BlockSpec(memory_space=pltpu.SMEM), ROWS))
def set_where_the_data_say_so(table, x, o, acc):
    @pl.when(table[pl.program_id(0)] == 0)
    def _():
        acc[...] = jnp.zeros_like(acc)

    acc[...] += x[...]
    o[...] = acc[...]


@kernel("read-before-write", scratch=(VMEM,), args=(TABLE, X), in_specs=(pl.BlockSpec(memory_space=pltpu.SMEM), ROWS))
def set_on_no_path(table, x, o, acc):
    @pl.when(table[pl.program_id(0)] == 0)
    def _():
        acc[...] = acc[...] * 0.5

    acc[...] += x[...]
    o[...] = acc[...]


@kernel("read-before-write", scratch=(pltpu.SMEM((1,), I32),))
def a_count_without_a_start(x, o, count):
    count[0] += 1
    o[...] = x[...] + count[0].astype(F32)


@kernel(input_output_aliases={0: 0}, in_specs=(ANYWHERE,), out_specs=ANYWHERE, out=X, scratch=(VMEM, DMA), grid=(1,))
def alias_holds_the_input(x, o, stage, done):
    copy = pltpu.make_async_copy(o.at[pl.ds(0, 8), :], stage, done)
    copy.start()
    copy.wait()
    stage[...] = stage[...] + 1.0
    back = pltpu.make_async_copy(stage, o.at[pl.ds(0, 8), :], done)
    back.start()
    back.wait()


@kernel("result-never-stored")
def rows_left_out(x, o):
    o[0:4, :] = x[0:4, :]


@kernel("result-never-stored", out=(ONE, ONE), out_specs=(STAYS, STAYS))
def second_result_left_out(x, o, other):
    o[...] = x[...]


@kernel()
def rows_one_by_one(x, o):
    for i in range(8):
        o[i, :] = x[i, :]


@kernel("result-never-stored", out_specs=ROWS, out=X, interpreted=False)
def stored_at_the_first_step_only(x, o):
    @pl.when(pl.program_id(0) == 0)
    def _():
        o[...] = x[...]


@kernel(out=jax.ShapeDtypeStruct((60, 128), F32), out_specs=ROWS)
def past_the_end_is_nobodys(x, o):
    last = pl.program_id(0) == 7

    @pl.when(last)
    def _():
        o[0:4, :] = x[0:4, :]

    @pl.when(jnp.logical_not(last))
    def _():
        o[...] = x[...]


@kernel("read-before-write", grid=(1,))
def scoped_starts_anew(x, o):
    def body(acc):
        acc[...] += x[...]
        o[...] = acc[...]

    pl.run_scoped(body, VMEM)


LARGE = {
    "grid": (40, 40),
    "in_specs": (pl.BlockSpec((8, 128), lambda i, k: (0, 0)),),
    "out_specs": pl.BlockSpec((8, 128), lambda i, k: (i, 0)),
    "out": jax.ShapeDtypeStruct((320, 128), F32),
    "interpreted": False,
}


@kernel("read-before-write", **LARGE)
def large_grid_never_set(x, o):
    o[...] += x[...]


@kernel(**LARGE, scratch=(VMEM,))
def large_grid(x, o, acc):
    @pl.when(pl.program_id(1) == 0)
    def _():
        acc[...] = jnp.zeros_like(acc)

    acc[...] += x[...]

    @pl.when(pl.program_id(1) == 39)
    def _():
        o[...] = acc[...]


def copied(x, i, into, done):
    """The copy of eight rows of ``x``."""
    return pltpu.make_async_copy(x.at[pl.ds(8 * i, 8), :], into, done)


@kernel(in_specs=(ANYWHERE,), scratch=(pltpu.VMEM((2, 8, 128), F32), DMA), grid=(1,))
def one_wait_for_two(x, o, pair, done):
    copied(x, 0, pair.at[0], done).start()
    copied(x, 1, pair.at[1], done).start()
    pltpu.make_async_copy(pair, pair, done).wait()
    o[...] = pair[0] + pair[1]


@kernel("copy-not-waited", in_specs=(ANYWHERE,), scratch=(pltpu.VMEM((2, 8, 128), F32), DMA), grid=(1,))
def one_wait_too_small_for_two(x, o, pair, done):
    copied(x, 0, pair.at[0], done).start()
    copied(x, 1, pair.at[1], done).start()
    copied(x, 1, pair.at[1], done).wait()
    o[...] = jnp.zeros_like(o)


@kernel(in_specs=(ANYWHERE,), scratch=(VMEM, DMA))
def waited_in_the_next_step(x, o, stage, done):
    i = pl.program_id(0)

    @pl.when(i > 0)
    def _():
        copied(x, i - 1, stage, done).wait()

    @pl.when(i == 7)
    def _():
        o[...] = stage[...]

    @pl.when(i < 7)
    def _():
        copied(x, i, stage, done).start()


@kernel("copy-not-waited", in_specs=(ANYWHERE,), scratch=(VMEM, DMA))
def the_last_steps_copy_left(x, o, stage, done):
    i = pl.program_id(0)

    @pl.when(i > 0)
    def _():
        copied(x, i - 1, stage, done).wait()

    o[...] = jnp.zeros_like(o)
    copied(x, i, stage, done).start()


@kernel(in_specs=(ANYWHERE,), scratch=(pltpu.VMEM((2, 8, 128), F32), pltpu.SemaphoreType.DMA((2,))), grid=(1,))
def double_buffered(x, o, slots, done):
    o[...] = jnp.zeros_like(o)
    copied(x, 0, slots.at[0], done.at[0]).start()

    def turn(i, slot):
        @pl.when(i < 7)
        def _():
            copied(x, i + 1, slots.at[1 - slot], done.at[1 - slot]).start()

        copied(x, i, slots.at[slot], done.at[slot]).wait()
        o[...] += slots[slot]
        return 1 - slot

    jax.lax.fori_loop(0, 8, turn, 0)


@kernel(in_specs=(ANYWHERE,), scratch=(pltpu.VMEM((2, 8, 128), F32), pltpu.SemaphoreType.DMA((2,))), grid=(1,),
        interpreted=False)  # fmt: skip
def double_buffered_for_long(x, o, slots, done):
    """Too many turns to be walked one by one."""
    o[...] = jnp.zeros_like(o)
    copied(x, 0, slots.at[0], done.at[0]).start()

    @pl.loop(0, 5000)
    def _(i):
        slot = jax.lax.rem(i, 2)

        @pl.when(i < 4999)
        def _():
            copied(x, 0, slots.at[1 - slot], done.at[1 - slot]).start()

        copied(x, 0, slots.at[slot], done.at[slot]).wait()
        o[...] += slots[slot]


@kernel(args=(TABLE, X), in_specs=(pl.BlockSpec(memory_space=pltpu.SMEM), ANYWHERE), scratch=(PAGES, DMA), grid=(1,))
def as_often_as_the_data_say(table, x, o, pages, done):
    o[...] = jnp.zeros_like(o)

    @pl.loop(0, table[0])
    def _(i):
        copied(x, i, pages.at[i], done).start()

    @pl.loop(0, table[0])
    def _(i):
        copied(x, i, pages.at[i], done).wait()


@kernel(args=(TABLE, X), in_specs=(pl.BlockSpec(memory_space=pltpu.SMEM), ANYWHERE), scratch=(VMEM, DMA))
def started_by_an_earlier_step_if_the_data_say_so(table, x, o, stage, done):
    i = pl.program_id(0)
    o[...] = jnp.zeros_like(o)

    @pl.when((i > 0) & (table[i] > 0))
    def _():
        copied(x, i, stage, done).wait()

    @pl.when((i < 7) & (table[jnp.minimum(i + 1, 7)] > 0))
    def _():
        copied(x, i, stage, done).start()


@kernel("copy-not-waited", args=(TABLE, X), in_specs=(pl.BlockSpec(memory_space=pltpu.SMEM), ANYWHERE),
        scratch=(VMEM, DMA), grid=(1,), interpreted=False)  # fmt: skip
def never_waited_if_started(table, x, o, stage, done):
    o[...] = jnp.zeros_like(o)

    @pl.when(table[0] > 0)
    def _():
        copied(x, 0, stage, done).start()


@kernel("read-before-wait", in_specs=(ANYWHERE,), scratch=(VMEM, DMA), grid=(1,))
def read_too_early(x, o, stage, done):
    copied(x, 0, stage, done).start()
    o[...] = stage[...]
    copied(x, 0, stage, done).wait()


@kernel(in_specs=(ANYWHERE,), scratch=(pltpu.VMEM((2, 8, 128), F32), DMA), grid=(1,))
def the_other_half_may_be_used(x, o, pair, done):
    pair[1] = jnp.zeros((8, 128))
    copied(x, 0, pair.at[0], done).start()
    o[...] = pair[1]
    copied(x, 0, pair.at[0], done).wait()


@kernel("read-before-wait", out_specs=ANYWHERE, out=X, scratch=(VMEM, DMA))
def source_overwritten(x, o, stage, done):
    i = pl.program_id(0)
    stage[...] = x[...]
    copy = pltpu.make_async_copy(stage, o.at[pl.ds(pl.multiple_of(i * 8, 8), 8), :], done)
    copy.start()
    stage[...] = jnp.zeros_like(stage)
    copy.wait()


@kernel(out_specs=ANYWHERE, out=X, scratch=(VMEM, DMA))
def result_by_copies(x, o, stage, done):
    i = pl.program_id(0)
    stage[...] = x[...] * 2.0
    pltpu.async_copy(stage, o.at[pl.ds(pl.multiple_of(i * 8, 8), 8), :], done).wait()


@kernel("result-never-stored", out_specs=ANYWHERE, out=X, scratch=(VMEM, DMA), grid=(7,))
def result_by_too_few_copies(x, o, stage, done):
    i = pl.program_id(0)
    stage[...] = x[...] * 2.0
    pltpu.async_copy(stage, o.at[pl.ds(pl.multiple_of(i * 8, 8), 8), :], done).wait()


@kernel("copy-waited-twice", in_specs=(ANYWHERE,), scratch=(VMEM, DMA), grid=(1,), interpreted=False)
def waited_twice(x, o, stage, done):
    copy = copied(x, 0, stage, done)
    copy.start()
    copy.wait()
    o[...] = stage[...]
    copy.wait()


@kernel(scratch=(REGULAR,))
def signalled_for_the_next_step(x, o, ready):
    o[...] = x[...]

    @pl.when(pl.program_id(0) > 0)
    def _():
        pl.semaphore_wait(ready, 1)

    @pl.when(pl.program_id(0) < 7)
    def _():
        pl.semaphore_signal(ready, 1)


@kernel("semaphore-leak", scratch=(REGULAR,))
def signalled_once_too_often(x, o, ready):
    o[...] = x[...]
    pl.semaphore_signal(ready, 1)

    @pl.when(pl.program_id(0) > 0)
    def _():
        pl.semaphore_wait(ready, 1)


@kernel("wait-without-signal", scratch=(REGULAR,), interpreted=False)
def waited_once_too_often(x, o, ready):
    o[...] = x[...]
    pl.semaphore_wait(ready, 1)
    pl.semaphore_signal(ready, 1)
