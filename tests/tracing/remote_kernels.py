"""Kernels that send to other devices of a ring of four: right ones, and ones that are wrong in one way.

Run as a program it runs the kernels that are named in JAX's TPU interpret mode on four CPU devices, and prints what
it says of them.
"""

import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

DEVICES = 4
X = jax.ShapeDtypeStruct((8 * DEVICES, 128), jnp.float32)
BLOCK = jax.ShapeDtypeStruct((8, 128), jnp.float32)
ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)
DMA, REGULAR = pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR
VMEM, PAIR, SLOTS = pltpu.VMEM((8, 128), jnp.float32), pltpu.VMEM((2, 8, 128), jnp.float32), DMA((2,))
LOGICAL = pl.DeviceIdType.LOGICAL


@dataclass(frozen=True)
class Kernel:
    """A kernel, the rules that it breaks, and what interpret mode makes of it: it may hang."""

    body: Callable[..., None]
    scratch: tuple[Any, ...]
    collective: int | None
    wrong: tuple[str, ...]
    hangs: bool

    def run(self, x: Any, interpret: Any = False) -> Any:
        """The kernel on each device of the ring."""
        params = None if self.collective is None else pltpu.CompilerParams(collective_id=self.collective)
        kinds = {"axis_types": (AxisType.Auto,)}
        mesh: Any = (
            jax.make_mesh((DEVICES,), ("ring",), **kinds)
            if interpret
            else AbstractMesh((DEVICES,), ("ring",), **kinds)
        )
        local = pl.pallas_call(
            self.body,
            out_shape=BLOCK,
            in_specs=[ANYWHERE],
            out_specs=ANYWHERE,
            scratch_shapes=list(self.scratch),
            compiler_params=params,
            interpret=interpret,
        )
        return jax.shard_map(local, mesh=mesh, in_specs=P("ring"), out_specs=P("ring"), check_vma=False)(x)


KERNELS: dict[str, Kernel] = {}


def kernel(
    *scratch: Any, wrong: Any = (), collective: int | None = None, hangs: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Enter a kernel of a whole input and a whole output."""

    def enter(body: Callable[..., None]) -> Callable[..., None]:
        KERNELS[body.__name__] = Kernel(body, scratch, collective, wrong, hangs)
        return body

    return enter


def neighbour(by: int = 1) -> Any:
    return lax.rem(lax.axis_index("ring") + by, DEVICES)


def left() -> Any:
    return neighbour(DEVICES - 1)


def passed(source: Any, target: Any, sent: Any, received: Any, to: Any = None) -> Any:
    """A copy to the right neighbour."""
    to = neighbour() if to is None else to
    return pltpu.make_async_remote_copy(source, target, sent, received, device_id=to, device_id_type=LOGICAL)


def signal(semaphore: Any, to: Any, by: int = 1) -> None:
    pl.semaphore_signal(semaphore, by, device_id=to, device_id_type=LOGICAL)


@kernel(DMA, DMA)
def handed_on(x, o, sent, received):
    copy = passed(x, o, sent, received)
    copy.start()
    copy.wait()


@kernel(DMA, DMA, wrong=("copy-not-waited",))
def not_received(x, o, sent, received):
    copy = passed(x, o, sent, received)
    copy.start()
    copy.wait_send()


@kernel(DMA, DMA, wrong=("copy-not-waited",))
def not_sent(x, o, sent, received):
    copy = passed(x, o, sent, received)
    copy.start()
    copy.wait_recv()


@kernel(DMA, DMA, wrong=("copy-waited-twice",), hangs=True)
def received_twice(x, o, sent, received):
    copy = passed(x, o, sent, received)
    copy.start()
    copy.wait()
    copy.wait_recv()


@kernel(DMA, DMA, wrong=("copy-waited-twice",), hangs=True)
def sent_twice(x, o, sent, received):
    copy = passed(x, o, sent, received)
    copy.start()
    copy.wait_send()
    copy.wait_send()
    copy.wait_recv()


@kernel(DMA, DMA, wrong=("copy-waited-twice",), hangs=True)
def received_before_anybody_sends(x, o, sent, received):
    copy = passed(x, o, sent, received)
    copy.wait_recv()
    copy.start()
    copy.wait_send()


@kernel(VMEM, VMEM, DMA, DMA, DMA, wrong=("read-before-wait",))
def source_overwritten(x, o, here, there, sent, received, done):
    pltpu.async_copy(x, here, done).wait()
    copy = passed(here, there, sent, received)
    copy.start()
    here[...] = jnp.zeros_like(here)
    copy.wait()
    pltpu.async_copy(there, o, done).wait()


@kernel(VMEM, VMEM, DMA, DMA, DMA)
def source_overwritten_once_it_is_sent(x, o, here, there, sent, received, done):
    pltpu.async_copy(x, here, done).wait()
    copy = passed(here, there, sent, received)
    copy.start()
    copy.wait_send()
    here[...] = jnp.zeros_like(here)
    copy.wait_recv()
    pltpu.async_copy(there, o, done).wait()


@kernel(VMEM, VMEM, DMA, DMA, DMA, wrong=("read-before-wait",))
def read_before_it_is_received(x, o, here, there, sent, received, done):
    pltpu.async_copy(x, here, done).wait()
    copy = passed(here, there, sent, received)
    copy.start()
    copy.wait_send()
    here[...] = there[...]
    copy.wait_recv()
    pltpu.async_copy(here, o, done).wait()


@kernel(DMA, DMA, collective=0)
def neighbours_meet_first(x, o, sent, received):
    barrier = pltpu.get_barrier_semaphore()
    signal(barrier, left())
    signal(barrier, neighbour())
    pl.semaphore_wait(barrier, 2)
    copy = passed(x, o, sent, received)
    copy.start()
    copy.wait()


@kernel(DMA, DMA, collective=0, wrong=("wait-without-signal",), hangs=True)
def one_neighbour_too_many(x, o, sent, received):
    barrier = pltpu.get_barrier_semaphore()
    signal(barrier, left())
    signal(barrier, neighbour())
    pl.semaphore_wait(barrier, 3)
    copy = passed(x, o, sent, received)
    copy.start()
    copy.wait()


@kernel(DMA, DMA, collective=0, wrong=("semaphore-leak",))
def one_neighbour_is_not_waited_for(x, o, sent, received):
    barrier = pltpu.get_barrier_semaphore()
    signal(barrier, left())
    signal(barrier, neighbour())
    pl.semaphore_wait(barrier, 1)
    copy = passed(x, o, sent, received)
    copy.start()
    copy.wait()


@kernel(REGULAR, DMA, wrong=("semaphore-leak",))
def signalled_by_two(x, o, ready, done):
    signal(ready, neighbour(), 2)
    pl.semaphore_wait(ready, 1)
    pltpu.async_copy(x, o, done).wait()


@kernel(DMA, DMA)
def only_the_first_sends(x, o, sent, received):
    me = lax.axis_index("ring")
    copy = passed(x, o, sent, received, 1)
    pl.when(me == 0)(copy.start)
    pl.when(me == 0)(copy.wait_send)
    pl.when(me == 1)(copy.wait_recv)


@kernel(REGULAR, DMA)
def one_after_the_other(x, o, turn, done):
    """Each device but the first waits for the one before it, which signals later in the program."""
    me = lax.axis_index("ring")
    pl.when(me > 0)(lambda: pl.semaphore_wait(turn, 1))
    pltpu.async_copy(x, o, done).wait()
    pl.when(me < DEVICES - 1)(lambda: signal(turn, me + 1))


@kernel(PAIR, SLOTS, SLOTS, REGULAR, DMA)
def all_around(x, o, slots, sent, received, room, done):
    """Each block goes all around, through two slots; a slot is written again when the neighbour has sent it on."""
    pltpu.async_copy(x, slots.at[0], done).wait()
    for step in range(DEVICES - 1):
        here, there = step % 2, (step + 1) % 2
        if step > 0:
            pl.semaphore_wait(room, 1)
        copy = passed(slots.at[here], slots.at[there], sent.at[here], received.at[there])
        copy.start()
        copy.wait()
        if step < DEVICES - 2:
            signal(room, left())
    pltpu.async_copy(slots.at[(DEVICES - 1) % 2], o, done).wait()


@kernel(PAIR, SLOTS, SLOTS, REGULAR, DMA, wrong=("semaphore-leak",))
def all_around_and_room_once_more(x, o, slots, sent, received, room, done):
    pltpu.async_copy(x, slots.at[0], done).wait()
    for step in range(DEVICES - 1):
        here, there = step % 2, (step + 1) % 2
        if step > 0:
            pl.semaphore_wait(room, 1)
        copy = passed(slots.at[here], slots.at[there], sent.at[here], received.at[there])
        copy.start()
        copy.wait()
        signal(room, left())
    pltpu.async_copy(slots.at[(DEVICES - 1) % 2], o, done).wait()


@kernel(PAIR, SLOTS, SLOTS, REGULAR, DMA)
def all_around_in_a_loop(x, o, slots, sent, received, room, done):
    pltpu.async_copy(x, slots.at[0], done).wait()

    @pl.loop(0, DEVICES - 1)
    def _(step):
        here, there = lax.rem(step, 2), lax.rem(step + 1, 2)
        pl.when(step > 0)(lambda: pl.semaphore_wait(room, 1))
        copy = passed(slots.at[here], slots.at[there], sent.at[here], received.at[there])
        copy.start()
        copy.wait()
        pl.when(step < DEVICES - 2)(lambda: signal(room, left()))

    pltpu.async_copy(slots.at[(DEVICES - 1) % 2], o, done).wait()


def main(names: list[str]) -> None:
    """Run kernels in interpret mode; print by name what it says of each, and whether there was a race, as JSON."""
    from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter

    x = jnp.arange(X.size, dtype=jnp.float32).reshape(X.shape)
    told = {}
    for name in names:
        mode = pltpu.InterpretParams(detect_races=True, dma_execution_mode="eager")
        with contextlib.redirect_stdout(io.StringIO()) as said:
            try:
                jax.block_until_ready(jax.jit(lambda x, k=KERNELS[name], mode=mode: k.run(x, mode))(x))
                time.sleep(0.5)  # Devices say what they left after their results are there.
                raced = interpreter.races is not None and bool(interpreter.races.races_found)
            except jax.errors.JaxRuntimeError as error:
                raced = "RACE DETECTED" in str(error)
        told[name] = f"{said.getvalue()} race={raced}"
        pltpu.reset_tpu_interpret_mode_state()
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1:])
