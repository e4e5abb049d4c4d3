"""Copies and signals that surely go wrong: one error each, at both levels."""

import functools
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from typedpallas import In, Out, Scratch, f32, tpu
from typedpallas.tpu import DMA, HBM, REGULAR, VMEM

type X = In[HBM, f32, L[16], L[128]]
type R = Out[VMEM, f32, L[16], L[128]]
type B = Scratch[VMEM, f32, L[2], L[8], L[128]]
type D = Scratch[DMA, L[2]]
type S = Scratch[DMA]


def never_waited(x: X, o: R, b: B, s: D) -> None:
    first = pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s.at[0])
    second = pltpu.make_async_copy(x.at[pl.ds(8, 8)], b.at[1], s.at[1])
    first.start()
    second.start()  # E: copy-not-waited
    first.wait()
    o[0:8] = b[0]
    o[8:16] = b[0]


def never_waited_in_a_branch(x: X, o: R, b: B, s: S) -> None:
    b[...] = jnp.zeros_like(b)

    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        pltpu.async_copy(x.at[pl.ds(0, 8)], b.at[0], s)  # E: copy-not-waited

    o[...] = jnp.zeros_like(o)


def in_a_list(x: X, o: R, b: B, s: D) -> None:
    copies = [pltpu.make_async_copy(x.at[pl.ds(8 * k, 8)], b.at[k], s.at[k]) for k in range(2)]  # E: copy-not-waited
    for copy in copies:
        copy.start()
    o[...] = jnp.zeros_like(o)


def waited_on_one_side(x: X, o: R, b: B, s: S) -> None:
    copy = pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s)
    i = pl.program_id(0)
    b[...] = jnp.zeros_like(b)

    @pl.when(i == 0)
    def _() -> None:
        copy.start()  # E: copy-not-waited

    @pl.when(i != 0)
    def _() -> None:
        copy.start()
        copy.wait()

    o[...] = jnp.zeros_like(o)


def waited_twice(x: X, o: R, b: B, s: S) -> None:
    copy = pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s)
    copy.start()
    copy.wait()
    o[0:8] = b[0]
    o[8:16] = b[0]
    copy.wait()  # E: copy-waited-twice


def waited_only(x: X, o: R, b: B, s: S) -> None:
    pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s).wait()  # E: copy-waited-twice
    o[...] = jnp.zeros_like(o)


def waited_elsewhere(x: X, o: R, b: B, s: D) -> None:
    pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s.at[0]).start()
    pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s.at[1]).wait()  # E: copy-waited-twice
    o[...] = jnp.zeros_like(o)


def read_early(x: X, o: R, b: B, s: D) -> None:
    def copy(k: int) -> Any:
        return pltpu.make_async_copy(x.at[pl.ds(8 * k, 8)], b.at[k], s.at[k])

    copy(0).start()
    copy(1).start()
    copy(0).wait()
    o[0:8] = b[0]
    o[8:16] = b[1]  # E: read-before-wait
    copy(1).wait()


def read_early_by_a_function(x: X, o: R, b: B, s: D) -> None:
    def copy(k: int) -> Any:
        return pltpu.make_async_copy(x.at[pl.ds(8 * k, 8)], b.at[lax.rem(k, 2)], s.at[k % 2])

    def use(k: int) -> None:
        o[8 * k : 8 * k + 8] = b[k]  # E: read-before-wait

    copy(0).start()
    use(1)
    copy(0).wait()
    copy(1).start()
    use(0)
    use(1)
    copy(1).wait()


def stored_early(x: X, o: R, b: B, s: S) -> None:
    copy = pltpu.make_async_copy(b.at[0], b.at[1], s)
    b[0] = jnp.ones((8, 128), jnp.float32)
    copy.start()
    b[0] = jnp.zeros((8, 128), jnp.float32)  # E: read-before-wait
    copy.wait()
    o[0:8] = b[1]
    o[8:16] = b[1]


def started_twice(x: X, o: R, b: B, s: D) -> None:
    copy = pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s.at[0])
    copy.start()
    copy.start()  # E: read-before-wait
    copy.wait()
    copy.wait()
    o[0:8] = b[0]
    o[8:16] = b[0]


def in_a_loop(x: X, o: R, b: B, s: S) -> None:
    @pl.loop(0, 2)
    def _(k: Any) -> None:
        copy = pltpu.make_async_copy(x.at[pl.ds(8 * k, 8)], b.at[0], s)
        copy.start()
        o[pl.ds(8 * k, 8)] = b[0]  # E: read-before-wait
        copy.wait()


def inside_the_block(x: X, o: R, b: B, s: S) -> None:
    with tpu.copy(x.at[pl.ds(0, 8)], b.at[0], s):
        o[0:8] = b[0]  # E: read-before-wait
    o[8:16] = b[0]


def shared(x: X, o: R, b: B, s: S) -> None:
    first = pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s)
    second = pltpu.make_async_copy(x.at[pl.ds(8, 8)], b.at[1], s)
    first.start()
    second.start()
    first.wait()
    o[0:8] = b[0]  # E: shared-semaphore
    second.wait()
    o[8:16] = b[1]


def starved(x: X, o: R, b: B, s: Scratch[REGULAR]) -> None:
    pl.semaphore_signal(s)
    pl.semaphore_wait(s, 2)  # E: wait-without-signal
    o[...] = jnp.zeros_like(o)


def leaking(x: X, o: R, b: B, s: Scratch[REGULAR]) -> None:
    pl.semaphore_signal(s, 3)  # E: semaphore-leak
    o[...] = jnp.zeros_like(o)
    pl.semaphore_wait(s, 2)


def within_a_scope(x: X, o: R, b: B, s: S) -> None:
    def copied(own, near):
        copy = pltpu.make_async_copy(x.at[pl.ds(0, 8)], near, own)
        copy.start()
        o[0:8] = near[...]  # E: read-before-wait
        copy.wait()
        o[8:16] = near[...]

    pl.run_scoped(copied, pltpu.SemaphoreType.DMA, pltpu.VMEM((8, 128), jnp.float32))


def left_in_a_scope(x: X, o: R, b: B, s: S) -> None:
    @functools.partial(pl.run_scoped, own=pltpu.SemaphoreType.DMA((2,)))
    def _(own: Any) -> None:
        pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], own.at[0]).start()  # E: copy-not-waited
        pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], own.at[1]).start()
        pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], own.at[1]).wait()

    o[...] = jnp.zeros_like(o)


OUT = jax.ShapeDtypeStruct((16, 128), jnp.float32)
FAR = [pl.BlockSpec(memory_space=pltpu.HBM)]
ALL = pl.BlockSpec((16, 128), lambda i: (0, 0))
BUFFERS = pltpu.VMEM((2, 8, 128), jnp.float32)
TWO = [BUFFERS, pltpu.SemaphoreType.DMA((2,))]
ONE = [BUFFERS, pltpu.SemaphoreType.DMA]
SIGNAL = [BUFFERS, pltpu.SemaphoreType.REGULAR]


def results(x: jax.Array) -> list[Any]:
    return [
        pl.pallas_call(never_waited, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=TWO)(x),
        pl.pallas_call(never_waited_in_a_branch, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE)(x),
        pl.pallas_call(in_a_list, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=TWO)(x),
        pl.pallas_call(waited_on_one_side, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE)(x),
        pl.pallas_call(waited_twice, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE)(x),
        pl.pallas_call(waited_only, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE)(x),
        pl.pallas_call(waited_elsewhere, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=TWO)(x),
        pl.pallas_call(read_early, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=TWO)(x),
        pl.pallas_call(read_early_by_a_function, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=TWO)(x),
        pl.pallas_call(stored_early, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE)(x),
        pl.pallas_call(started_twice, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=TWO)(x),
        pl.pallas_call(in_a_loop, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE)(x),
        pl.pallas_call(inside_the_block, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE)(x),
        pl.pallas_call(shared, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE)(x),
        pl.pallas_call(within_a_scope, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE)(x),
        pl.pallas_call(left_in_a_scope, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE)(x),
        pl.pallas_call(starved, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=SIGNAL)(x),
        pl.pallas_call(leaking, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=SIGNAL)(x),
    ]
