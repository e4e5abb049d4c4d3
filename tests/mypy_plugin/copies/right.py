"""Copies that are waited for in all the ways people write: none is an error, and each kernel runs."""

import functools
from typing import Any
from typing import Literal as L

import helpers
import jax
import jax.numpy as jnp
import numpy as np
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

HALVES = (pl.ds(0, 8), pl.ds(8, 8))


def by_another_module(x: X, o: R, b: B, s: S) -> None:
    for k in range(2):
        copy = pltpu.make_async_copy(x.at[pl.ds(8 * k, 8)], b.at[k], s)
        copy.start()
        helpers.drain(copy)
        o[8 * k : 8 * k + 8] = b[k]


def by_another_module_all(x: X, o: R, b: B, s: D) -> None:
    copies = [pltpu.make_async_copy(x.at[HALVES[k]], b.at[k], s.at[k]) for k in range(2)]
    for copy in copies:
        copy.start()
    helpers.drain_all(copies)
    o[...] = b[...].reshape(16, 128)


def two_semaphores(x: X, o: R, b: B, s: D) -> None:
    first = pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s.at[0])
    second = pltpu.make_async_copy(x.at[pl.ds(8, 8)], b.at[1], s.at[1])
    first.start()
    second.start()
    first.wait()
    o[0:8] = b[0]
    second.wait()
    o[8:16] = b[1]


def one_semaphore(x: X, o: R, b: B, s: S) -> None:
    first = pltpu.async_copy(x.at[pl.ds(0, 8)], b.at[0], s)
    second = pltpu.async_copy(x.at[pl.ds(8, 8)], b.at[1], s)
    first.wait()
    second.wait()
    o[...] = b[...].reshape(16, 128)


def one_wait_for_both(x: X, o: R, b: B, s: S) -> None:
    pltpu.async_copy(x.at[pl.ds(0, 8)], b.at[0], s)
    pltpu.async_copy(x.at[pl.ds(8, 8)], b.at[1], s)
    pltpu.make_async_copy(x, x, s).wait()
    o[...] = b[...].reshape(16, 128)


def two_waits_for_one(x: X, o: R, b: B, s: S) -> None:
    pltpu.async_copy(x.at[pl.ds(0, 8)], b.at[0], s)
    pltpu.async_copy(x.at[pl.ds(8, 8)], b.at[1], s)
    half = pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s)
    half.wait()
    half.wait()
    o[...] = b[...].reshape(16, 128)


def by_functions(x: X, o: R, b: B, s: D) -> None:
    def copy(k: int) -> Any:
        return pltpu.make_async_copy(x.at[pl.ds(8 * k, 8)], b.at[k], s.at[k])

    another = lambda k: pltpu.make_async_copy(x.at[pl.ds(8 * k, 8)], b.at[k], s.at[k])  # noqa: E731
    copy(0).start()
    another(1).start()
    another(0).wait()
    copy(1).wait()
    o[...] = b[...].reshape(16, 128)


def by_procedures(x: X, o: R, b: B, s: D) -> None:
    def start(k: int) -> None:
        pltpu.make_async_copy(x.at[pl.ds(8 * k, 8)], b.at[k], s.at[k]).start()

    def wait(k: int) -> None:
        pltpu.make_async_copy(x.at[pl.ds(8 * k, 8)], b.at[k], s.at[k]).wait()

    start(0)
    start(1)
    wait(0)
    o[0:8] = b[0]
    wait(1)
    o[8:16] = b[1]


def buffers_in_turn(x: X, o: R, b: B, s: D) -> None:
    def copy(slot: Any, k: Any) -> Any:
        return pltpu.make_async_copy(x.at[pl.ds(8 * k, 8)], b.at[slot], s.at[slot])

    copy(0, 0).start()

    @pl.loop(0, 2)
    def _(k: Any) -> None:
        slot = lax.rem(k, 2)

        @pl.when(k + 1 < 2)
        def _() -> None:
            copy(1 - slot, k + 1).start()

        copy(slot, k).wait()
        o[pl.ds(8 * k, 8)] = b[slot]


def across_steps(x: X, o: R, b: B, s: D) -> None:
    """The next step's block is on its way while this one's is used."""
    i = pl.program_id(0)
    now = pltpu.make_async_copy(x.at[pl.ds(8 * i, 8)], b.at[lax.rem(i, 2)], s.at[lax.rem(i, 2)])
    ahead = pltpu.make_async_copy(x.at[pl.ds(8 * (i + 1), 8)], b.at[lax.rem(i + 1, 2)], s.at[lax.rem(i + 1, 2)])

    @pl.when(i == 0)
    def _() -> None:
        now.start()

    @pl.when(i + 1 < pl.num_programs(0))
    def _() -> None:
        ahead.start()

    now.wait()
    o[pl.ds(8 * i, 8)] = b[lax.rem(i, 2)]


def from_the_step_before(x: X, o: R, b: B, s: S) -> None:
    i = pl.program_id(0)

    @pl.when(i > 0)
    def _() -> None:
        pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s).wait()
        o[pl.ds(8 * (i - 1), 8)] = b[0]

    pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s).start()

    @pl.when(i == pl.num_programs(0) - 1)
    def _() -> None:
        pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s).wait()
        o[pl.ds(8 * i, 8)] = b[0]


def in_branches(x: X, o: R, b: B, s: S) -> None:
    i = pl.program_id(0)
    copy = pltpu.make_async_copy(x.at[pl.ds(8 * i, 8)], b.at[0], s)

    @pl.when(i == 0)
    def _() -> None:
        copy.start()

    @pl.when(i != 0)
    def _() -> None:
        pltpu.make_async_copy(x.at[pl.ds(8 * i, 8)], b.at[0], s).start()

    b[1] = jnp.zeros_like(b[1])
    copy.wait()
    o[pl.ds(8 * i, 8)] = b[0]


def for_a_block(x: X, o: R, b: B, s: S) -> None:
    for k in range(2):
        with tpu.copy(x.at[pl.ds(8 * k, 8)], b.at[k], s):
            b[1 - k] = b[1 - k] * 1.0 if k else jnp.zeros_like(b[1])
        o[8 * k : 8 * k + 8] = b[k]


def left_early(x: X, o: R, b: B, s: S) -> None:
    o[...] = jnp.zeros_like(o)
    pltpu.sync_copy(x.at[pl.ds(0, 8)], b.at[0])
    o[0:8] = b[0]
    o[8:16] = b[0]
    with tpu.copy(x.at[pl.ds(0, 8)], b.at[0], s):
        return


def by_a_conditional(x: X, o: R, b: B, s: S) -> None:
    copy = pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s)
    copy.start()
    lax.cond(pl.program_id(0) == 0, lambda: copy.wait(), lambda: copy.wait())
    o[0:8] = b[0]
    o[8:16] = b[0]


def by_a_method(x: X, o: R, b: B, s: S) -> None:
    copy = pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s)
    copy.start()
    finish = copy.wait
    finish()
    o[0:8] = b[0]
    o[8:16] = b[0]


def by_turns(x: X, o: R, b: B, s: S) -> None:
    """Four starts in one loop, one wait for each in another."""

    def start(k: Any, carry: None) -> None:
        pltpu.async_copy(x.at[pl.ds(0, 8)], b.at[0], s)
        pltpu.async_copy(x.at[pl.ds(8, 8)], b.at[1], s)

    def finish(k: Any, carry: None) -> None:
        pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s).wait()

    lax.fori_loop(0, 1, start, None)
    lax.fori_loop(0, 2, finish, None)
    o[...] = b[...].reshape(16, 128)


def signals(x: X, o: R, b: B, s: Scratch[REGULAR]) -> None:
    pl.semaphore_signal(s, 2)
    pl.semaphore_wait(s, 1)
    pltpu.sync_copy(x, o)
    pl.semaphore_wait(s)


def within_a_scope(x: X, o: R, b: B, s: S) -> None:
    @functools.partial(pl.run_scoped, own=pltpu.SemaphoreType.DMA, near=pltpu.VMEM((8, 128), jnp.float32))
    def _(own: Any, near: Any) -> None:
        copy = pltpu.make_async_copy(x.at[pl.ds(0, 8)], near, own)
        copy.start()
        copy.wait()
        o[0:8] = near[...]

    def rest(own, near):
        copy = pltpu.async_copy(x.at[pl.ds(8, 8)], near, own.at[0])
        copy.wait()
        pltpu.async_copy(near, b.at[0], s).wait()
        o[8:16] = b[0]

    pl.run_scoped(rest, pltpu.SemaphoreType.DMA((1,)), pltpu.VMEM((8, 128), jnp.float32))


def within_a_pipeline(x: X, o: R, b: B, s: S) -> None:
    """The wait is in a function that a function calls which somebody else runs."""
    copy = pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s)

    def wait() -> None:
        copy.wait()

    def step(k: Any) -> None:
        @pl.when(k == 0)
        def _() -> None:
            wait()

    copy.start()
    jax.tree.map(step, [0, 1])
    o[0:8] = b[0]
    o[8:16] = b[0]


def reads_its_source(x: X, o: R, b: B, s: S) -> None:
    """A copy's source may be read meanwhile, and other parts of its target be used."""
    pltpu.sync_copy(x.at[pl.ds(0, 8)], b.at[0])
    copy = pltpu.make_async_copy(b.at[0], b.at[1], s)
    copy.start()
    o[0:8] = b[0]
    copy.wait()
    o[8:16] = b[1]


OUT = jax.ShapeDtypeStruct((16, 128), jnp.float32)
FAR = [pl.BlockSpec(memory_space=pltpu.HBM)]
ALL = pl.BlockSpec((16, 128), lambda i: (0, 0))
BUFFERS = pltpu.VMEM((2, 8, 128), jnp.float32)
TWO = [BUFFERS, pltpu.SemaphoreType.DMA((2,))]
ONE = [BUFFERS, pltpu.SemaphoreType.DMA]
SIGNAL = [BUFFERS, pltpu.SemaphoreType.REGULAR]
ON_CPU: Any = pltpu.InterpretParams(detect_races=True)


def results(x: jax.Array) -> dict[str, Any]:
    """What each kernel gives of ``x``."""
    return {
        "by_another_module": pl.pallas_call(
            by_another_module, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE, interpret=ON_CPU
        )(x),
        "by_another_module_all": pl.pallas_call(
            by_another_module_all, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=TWO, interpret=ON_CPU
        )(x),
        "two_semaphores": pl.pallas_call(
            two_semaphores, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=TWO, interpret=ON_CPU
        )(x),
        "one_semaphore": pl.pallas_call(
            one_semaphore, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE, interpret=ON_CPU
        )(x),
        "one_wait_for_both": pl.pallas_call(
            one_wait_for_both, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE, interpret=ON_CPU
        )(x),
        "two_waits_for_one": pl.pallas_call(
            two_waits_for_one, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE, interpret=ON_CPU
        )(x),
        "by_functions": pl.pallas_call(
            by_functions, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=TWO, interpret=ON_CPU
        )(x),
        "by_procedures": pl.pallas_call(
            by_procedures, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=TWO, interpret=ON_CPU
        )(x),
        "buffers_in_turn": pl.pallas_call(
            buffers_in_turn, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=TWO, interpret=ON_CPU
        )(x),
        "across_steps": pl.pallas_call(
            across_steps, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=TWO, interpret=ON_CPU
        )(x),
        "from_the_step_before": pl.pallas_call(
            from_the_step_before,
            OUT,
            grid=(2,),
            in_specs=FAR,
            out_specs=ALL,
            scratch_shapes=ONE,
            interpret=ON_CPU,
        )(x),
        "in_branches": pl.pallas_call(
            in_branches, OUT, grid=(2,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE, interpret=ON_CPU
        )(x),
        "for_a_block": pl.pallas_call(
            for_a_block, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE, interpret=ON_CPU
        )(x),
        "left_early": pl.pallas_call(
            left_early, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE, interpret=ON_CPU
        )(x),
        "by_a_conditional": pl.pallas_call(
            by_a_conditional, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE, interpret=ON_CPU
        )(x),
        "by_a_method": pl.pallas_call(
            by_a_method, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE, interpret=ON_CPU
        )(x),
        "by_turns": pl.pallas_call(
            by_turns, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE, interpret=ON_CPU
        )(x),
        "signals": pl.pallas_call(
            signals, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=SIGNAL, interpret=ON_CPU
        )(x),
        "within_a_scope": pl.pallas_call(
            within_a_scope, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE, interpret=ON_CPU
        )(x),
        "within_a_pipeline": pl.pallas_call(
            within_a_pipeline, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE, interpret=ON_CPU
        )(x),
        "reads_its_source": pl.pallas_call(
            reads_its_source, OUT, grid=(1,), in_specs=FAR, out_specs=ALL, scratch_shapes=ONE, interpret=ON_CPU
        )(x),
    }


HALF_TWICE = (
    "left_early",
    "from_the_step_before",
    "by_a_conditional",
    "by_a_method",
    "reads_its_source",
    "within_a_pipeline",
)
"""Kernels that give the first half of what they are given twice."""


def run() -> None:
    x = np.arange(2048, dtype=np.float32).reshape(16, 128)
    twice = np.concatenate([x[:8], x[:8]])
    for name, result in results(jnp.asarray(x)).items():
        np.testing.assert_array_equal(result, twice if name in HALF_TWICE else x, name)
