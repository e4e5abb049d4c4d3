"""`copy-waited-twice`."""

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

def kernel(x_ref, o_ref, buffer_ref, done_ref):
    copy = pltpu.make_async_copy(x_ref, buffer_ref, done_ref)
    copy.start()
    copy.wait()
    o_ref[...] = buffer_ref[...]
    {again}

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA],
    )(x)

def reference(x):
    return x
"""


class CopyWaitedTwice(Rule):
    """A wait asks a DMA semaphore for more bytes than were ever started on it: the kernel hangs.

    A wait takes the bytes of its destination off the semaphore, and blocks until they are there. A second wait
    for one copy, a wait for a copy that was not started, or one with a larger destination never ends.

    A wait that comes always for a copy that is started only where data say so hangs where they do not; that is
    refused with the number. What comes from other devices is as much, on average, as each of them sends.

    On GPUs each wait at a barrier is for one more of its phases.

    Machines: TPU; GPU (Mosaic GPU). Source: JAX's interpret modes hang there, as the chips do.
    """

    slug = "copy-waited-twice"
    judges = (SemaphoreStarved, BarrierStarved)
    message = "a wait on `{semaphore}` never ends: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(again="copy.wait()"),
        good=_KERNEL.format(again=""),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, BarrierStarved):
            if event.copies and event.completed and not event.arrived:
                yield self._on_gpu(event)
            return
        assert isinstance(event, SemaphoreStarved)
        if event.counts != "bytes":
            return
        wanted = "a copy" if event.wanted is None else f"at least {event.wanted} bytes of copies"
        there = "fewer bytes" if event.there is None else "none" if event.there == 0 else f"{event.there} bytes"
        most = "fewer bytes" if event.there is None else f"at most {event.there} bytes"
        yield verdict(self, event.given)(
            semaphore=event.semaphore,
            expected=f"{wanted} started and not yet waited for",
            found=there,
            witness=f"{where(event.given)}`{event.semaphore}` gets {most}, and the wait{at_step(event.step)} takes "
            f"{'those of a whole copy' if event.wanted is None else event.wanted}",
            notes=notes(event.given, event.shared),
            help="wait once for each copy that was started" + (", and only where it was" if event.given else ""),
        )

    def _on_gpu(self, event: BarrierStarved) -> Finding:
        return self.refuted(
            semaphore=event.barrier,
            expected=f"at most {event.completed} waits, as many as phases of it end",
            found=f"wait {event.completed + 1}",
            witness=f"the wait {_moments.by(event.when)} is for phase {event.completed}, counted from 0, and no copy "
            "arrives in it",
            help="wait once for each copy that was started, or each group of copies that one phase counts",
        )
