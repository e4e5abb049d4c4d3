"""`semaphore-as-data`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, SemaphoreMisuse
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
    {wait}
    o_ref[...] = buffer_ref[...] * 2.0

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA],
    )(x)

def reference(x):
    return x * 2.0
"""


class SemaphoreAsData(Rule):
    """A semaphore where a buffer belongs, a buffer where a semaphore belongs, or a semaphore of the wrong kind.

    A semaphore holds no data: it cannot be loaded, stored to or copied. DMA semaphores count the bytes of copies,
    which start them and wait for them; regular and barrier semaphores count signals, for `pl.semaphore_signal` and
    `pl.semaphore_wait`. Each of these takes one semaphore, not an array of them: `done_ref.at[slot]`.

    Machines: TPU. Source: JAX refuses most of it while tracing, in many words; `semaphore_read` of an array of
    semaphores when it lowers; copies of semaphores libtpu 0.0.48 ("DMA source and target element type mismatch").
    """

    slug = "semaphore-as-data"
    judges = (SemaphoreMisuse,)
    message = "`{name}` is {kind}: expected {expected} for {use}, found {found}"
    example = Example(
        bad=_KERNEL.format(wait="pl.semaphore_wait(done_ref, 1)"),
        good=_KERNEL.format(wait="copy.wait()"),
        targets=("tpu-v5e",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, SemaphoreMisuse)
        yield self.refuted(
            name=event.name,
            kind=event.kind,
            use=event.use,
            expected=event.wanted,
            found=event.kind,
            help=_help(event),
        )


def _help(event: SemaphoreMisuse) -> str:
    if event.wanted == "a buffer":
        return "pass the buffer that holds the data; `pl.semaphore_read` gives a semaphore's count"
    if event.wanted.startswith("one"):
        return f"select one: `{event.name}.at[slot]`"
    if "DMA" in event.kind:
        return "wait with the copy's own `wait()`, or make the semaphore `pltpu.SemaphoreType.REGULAR`"
    kind = "DMA" if "DMA" in event.wanted else "REGULAR"
    if "semaphore" in event.kind:
        return f"make the semaphore `pltpu.SemaphoreType.{kind}`"
    return f"pass a semaphore: `pltpu.SemaphoreType.{kind}` makes one in the scratch"
