"""Kernels with copies under way: on one semaphore, in long loops and grids. Entered among those of `flow_kernels`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flow_kernels import ANYWHERE, DMA, F32, copied, kernel
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

PAIR = pltpu.VMEM((2, 8, 128), F32)


@kernel("shared-semaphore", in_specs=(ANYWHERE,), scratch=(PAIR, DMA), grid=(1,))
def one_semaphore_first_used_after_its_wait(x, o, pair, done):
    first, second = copied(x, 0, pair.at[0], done), copied(x, 1, pair.at[1], done)
    first.start()
    second.start()
    first.wait()
    o[...] = pair[0]
    second.wait()
    o[...] += pair[1]


@kernel(in_specs=(ANYWHERE,), scratch=(PAIR, DMA), grid=(1,))
def one_semaphore_both_waited_for(x, o, pair, done):
    first, second = copied(x, 0, pair.at[0], done), copied(x, 1, pair.at[1], done)
    first.start()
    second.start()
    first.wait()
    second.wait()
    o[...] = pair[0] + pair[1]


@kernel("read-before-wait", in_specs=(ANYWHERE,), scratch=(PAIR, DMA), grid=(1,))
def one_semaphore_the_other_used(x, o, pair, done):
    first, second = copied(x, 0, pair.at[0], done), copied(x, 1, pair.at[1], done)
    first.start()
    second.start()
    first.wait()
    o[...] = pair[1]
    second.wait()


@kernel(in_specs=(ANYWHERE,), scratch=(PAIR, DMA), grid=(1,))
def one_semaphore_one_after_the_other(x, o, pair, done):
    o[...] = jnp.zeros_like(o)
    for k in range(2):
        copied(x, k, pair.at[k], done).start()
        copied(x, k, pair.at[k], done).wait()
        o[...] += pair[k]


@kernel(in_specs=(ANYWHERE,), scratch=(pltpu.VMEM((24, 128), F32), DMA), grid=(1,))
def one_semaphore_the_larger_copy_first(x, o, both, done):
    """The small copy alone cannot end the wait for the large one."""
    large = pltpu.make_async_copy(x.at[pl.ds(0, 16), :], both.at[pl.ds(0, 16), :], done)
    small = pltpu.make_async_copy(x.at[pl.ds(16, 8), :], both.at[pl.ds(16, 8), :], done)
    large.start()
    small.start()
    large.wait()
    o[...] = both[0:8, :] + both[8:16, :]
    small.wait()
    o[...] += both[16:24, :]


@kernel("shared-semaphore", in_specs=(ANYWHERE,), scratch=(pltpu.VMEM((24, 128), F32), DMA), grid=(1,))
def one_semaphore_the_smaller_copy_first(x, o, both, done):
    large = pltpu.make_async_copy(x.at[pl.ds(0, 16), :], both.at[pl.ds(0, 16), :], done)
    small = pltpu.make_async_copy(x.at[pl.ds(16, 8), :], both.at[pl.ds(16, 8), :], done)
    small.start()
    large.start()
    small.wait()
    o[...] = both[16:24, :]
    large.wait()
    o[...] += both[0:8, :] + both[8:16, :]


def _prefetched(count: int, semaphores: int):
    """Two slots in turn, ``count`` rows; one semaphore for each slot, or one for both."""

    def body(x, o, slots, done):
        o[...] = jnp.zeros_like(o)

        def copy(i):
            return copied(x, i % 8, slots.at[i % 2], done.at[i % semaphores])

        copy(0).start()

        @pl.loop(0, count)
        def _(i):
            @pl.when(i + 1 < count)
            def _():
                copy(i + 1).start()

            copy(i).wait()
            o[...] += slots[i % 2]

    body.__name__ = f"prefetched_{count}_with_{semaphores}"
    return body


for _count in (8, 500):
    for _semaphores in (1, 2):
        kernel(
            "shared-semaphore" if _semaphores == 1 else None,
            in_specs=(ANYWHERE,),
            scratch=(PAIR, pltpu.SemaphoreType.DMA((2,))),
            grid=(1,),
            interpreted=_count == 8,
        )(_prefetched(_count, _semaphores))


LONG = {"in_specs": (ANYWHERE,), "scratch": (PAIR, pltpu.SemaphoreType.DMA((2,))), "grid": (1,), "interpreted": False}
LAST = 5000 - 1


def _long(name: str, wrong: str | None, turn: Callable[..., Any], drain: Callable[..., None] | None = None) -> None:
    """A loop of 5000 turns over two slots: too long to be walked turn by turn."""

    def body(x, o, slots, done):
        o[...] = jnp.zeros_like(o)

        def copy(i):
            return copied(x, i % 8, slots.at[i % 2], done.at[i % 2])

        copy(0).start()
        jax.lax.fori_loop(0, LAST + 1, lambda i, _: turn(i, copy, slots, o), None)
        if drain is not None:
            drain(copy)

    body.__name__ = f"long_{name}"
    kernel(wrong, **LONG)(body)


def _next(i, copy, ahead=1, last=LAST):
    @pl.when(i + ahead <= last)
    def _():
        copy(i + ahead).start()


def _right(i, copy, slots, o):
    _next(i, copy)
    copy(i).wait()
    o[...] += slots[i % 2]


def _used_first(i, copy, slots, o):
    _next(i, copy)
    o[...] += slots[i % 2]
    copy(i).wait()


def _one_too_many(i, copy, slots, o):
    _next(i, copy, last=LAST + 1)
    copy(i).wait()
    o[...] += slots[i % 2]


def _last_not_waited(i, copy, slots, o):
    _next(i, copy)

    @pl.when(i < LAST)
    def _():
        copy(i).wait()
        o[...] += slots[i % 2]


def _other_slot_used(i, copy, slots, o):
    _next(i, copy)
    copy(i).wait()
    o[...] += slots[1 - i % 2]


def _last_twice(i, copy, slots, o):
    _right(i, copy, slots, o)

    @pl.when(i == LAST)
    def _():
        copy(i).wait()


_long("right", None, _right)
_long("used_first", "read-before-wait", _used_first)
_long("one_too_many", "copy-not-waited", _one_too_many)
_long("drained", None, _one_too_many, lambda copy: copy(LAST + 1).wait())
_long("drained_on_the_other_slot", "copy-waited-twice", _one_too_many, lambda copy: copy(LAST).wait())
_long("last_not_waited", "copy-not-waited", _last_not_waited)
_long("other_slot_used", "read-before-wait", _other_slot_used)
_long("last_twice", "copy-waited-twice", _last_twice)


def _over_a_grid(name: str, wrong: str | None, first: int, wait: Callable[..., Any], outer: int = 1) -> None:
    """Two slots in turn over 3000 steps; with ``outer`` such rows of steps the copies go on from one to the next."""

    def body(x, o, slots, done):
        i = pl.program_id(0) * 3000 + pl.program_id(1)
        last = outer * 3000 - 1

        def copy(i):
            return copied(x, i % 8, slots.at[i % 2], done.at[i % 2])

        @pl.when(i == 0)
        def _():
            copy(0).start()

        @pl.when(i + first <= last)
        def _():
            copy(i + first).start()

        wait(i, last, copy)
        o[...] = slots[i % 2]

    body.__name__ = f"over_a_grid_{name}"
    where = pl.BlockSpec((8, 128), lambda i, k: (i * 3000 + k, 0))
    out = jax.ShapeDtypeStruct((8 * 3000 * outer, 128), F32)
    kernel(wrong, **{**LONG, "grid": (outer, 3000)}, out=out, out_specs=where)(body)


def _each(i, last, copy):
    copy(i).wait()


def _but_the_last(i, last, copy):
    @pl.when(i < last)
    def _():
        copy(i).wait()


_over_a_grid("right", None, 1, _each)
_over_a_grid("and_another", None, 1, _each, outer=20)
_over_a_grid("last_not_waited", "copy-not-waited", 1, _but_the_last)
_over_a_grid("last_of_many_not_waited", "copy-not-waited", 1, _but_the_last, outer=20)
