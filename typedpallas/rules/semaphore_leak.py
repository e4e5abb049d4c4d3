"""`semaphore-leak`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, SemaphoreLeft
from typedpallas.rules._steps import notes, verdict, where
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ARGS = (jax.ShapeDtypeStruct((8, 128), jnp.float32),)

def kernel(x_ref, o_ref, ready_ref):
    pl.semaphore_signal(ready_ref, 2)
    o_ref[...] = x_ref[...] * 2.0
    pl.semaphore_wait(ready_ref, {waited})

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        scratch_shapes=[pltpu.SemaphoreType.REGULAR],
    )(x)

def reference(x):
    return x * 2.0
"""


class SemaphoreLeak(Rule):
    """A semaphore is signalled more often than it is waited for, and is not zero when the kernel ends.

    The chip checks semaphores when a kernel ends and stops the core if one is not zero; the next kernel would start
    with the leftover. Semaphores that other devices or cores signal are not judged.

    Machines: TPU. Source: JAX's TPU interpret mode reports semaphores with a count when a kernel ends.
    """

    slug = "semaphore-leak"
    judges = (SemaphoreLeft,)
    message = "semaphore `{semaphore}` is not zero at the end: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(waited=1),
        good=_KERNEL.format(waited=2),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, SemaphoreLeft)
        if event.counts != "signals" or event.left is None:
            return
        yield verdict(self, event.given)(
            semaphore=event.semaphore,
            expected="as much waited for as signalled",
            found=f"{event.left} left",
            witness=f"{where(event.given)}`{event.semaphore}` still counts at least {event.left} at the end",
            notes=notes(event.given, event.shared),
            help=f"wait on `{event.semaphore}` for all that is signalled",
        )
