"""`wait-without-signal`."""

from collections.abc import Iterator

from typedpallas.events import BarrierStarved, Context, Event, SemaphoreStarved
from typedpallas.rules import _moments
from typedpallas.rules._steps import at_step, notes, verdict, where
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ARGS = (jax.ShapeDtypeStruct((8, 128), jnp.float32),)

def kernel(x_ref, o_ref, ready_ref):
    pl.semaphore_signal(ready_ref, {signalled})
    o_ref[...] = x_ref[...] * 2.0
    pl.semaphore_wait(ready_ref, 2)

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        scratch_shapes=[pltpu.SemaphoreType.REGULAR],
    )(x)

def reference(x):
    return x * 2.0
"""


class WaitWithoutSignal(Rule):
    """A wait asks a semaphore for more than is ever signalled: the kernel hangs.

    Of a semaphore that other devices signal each device gets, on average, as much as it sends itself. Those that
    other cores signal are not judged.

    On GPUs the same holds of a barrier at which nobody arrives, or nobody any more.

    Machines: TPU; GPU (Mosaic GPU). Source: JAX's interpret modes hang there, as the chips do.
    """

    slug = "wait-without-signal"
    judges = (SemaphoreStarved, BarrierStarved)
    message = "a wait on `{semaphore}` never ends: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(signalled=1),
        good=_KERNEL.format(signalled=2),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, BarrierStarved):
            if not event.arrived and not (event.copies and event.completed):
                yield self._on_gpu(event)
            return
        assert isinstance(event, SemaphoreStarved)
        if event.counts != "signals":
            return
        yield verdict(self, event.given)(
            semaphore=event.semaphore,
            expected=f"at least {event.wanted} signalled before it",
            found=f"{event.there}",
            witness=f"{where(event.given)}`{event.semaphore}` gets at most {event.there}, and "
            f"the wait{at_step(event.step)} takes {event.wanted}",
            notes=notes(event.given, event.shared),
            help=f"signal `{event.semaphore}` as often as it is waited for",
        )

    def _on_gpu(self, event: BarrierStarved) -> Finding:
        return self.refuted(
            semaphore=event.barrier,
            expected=f"{event.arrivals} arrivals in each phase",
            found="none" if not event.completed else f"none after {event.completed} phases",
            witness=f"the wait {_moments.by(event.when)} is for phase {event.completed}, counted from 0: nobody "
            "arrives in it, and nothing goes on any more",
            help=f"let a copy or `plgpu.barrier_arrive` arrive at `{event.barrier}` as often as it is waited for",
        )
