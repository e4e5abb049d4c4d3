"""`shared-semaphore`."""

from collections.abc import Iterator

from typedpallas.events import Context, CopyInUse, Event
from typedpallas.rules._steps import USES, at_step, notes, verdict, where
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ARGS = (jax.ShapeDtypeStruct((16, 128), jnp.float32),)

def kernel(x_ref, o_ref, buffer_ref, done_ref):
    def copy(k):
        return pltpu.make_async_copy(x_ref.at[pl.ds(8 * k, 8), :], buffer_ref.at[k], done_ref.at[{element}])

    first, second = copy(0), copy(1)
    first.start()
    second.start()
    first.wait()
    o_ref[...] = buffer_ref[0] * 2.0
    second.wait()
    o_ref[...] += buffer_ref[1]

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((2, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,))],
    )(x)

def reference(x):
    return x[:8] * 2.0 + x[8:]
"""


class SharedSemaphore(Rule):
    """Two copies count on one semaphore, and a buffer is used after a wait that either of them may have ended.

    A DMA semaphore counts bytes and does not know whose they are; copies may end in any order. After a wait for one
    of two copies of one size the other may be the one that has ended. Waiting for both before either is used is
    right, and so is one wait for the bytes of both.

    Only what is certain is refused: the copies that were started on the semaphore and not yet waited for amount to
    at least this one. A wait that the other copies could not have ended alone is taken to have ended this one.

    Machines: TPU. Source: JAX's TPU interpret mode with `dma_execution_mode="on_wait"`, which lets the copy that was
    started last end first, gives wrong numbers.
    """

    slug = "shared-semaphore"
    judges = (CopyInUse,)
    message = "the wait for the copy to `{target}` may be ended by another one: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(element="0"),
        good=_KERNEL.format(element="k"),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, CopyInUse)
        if event.other is None:
            return
        action = USES[event.how].replace(" it", f" `{event.buffer}`")
        yield verdict(self, event.given)(
            target=event.target,
            expected=f"waits for all that is under way on `{event.semaphore}` first, or a semaphore of its own",
            found=f"{action}{at_step(event.step)}",
            witness=f"{where(event.given)}the copies `{event.source}` -> `{event.target}` and `{event.other}` both "
            f"count on `{event.semaphore}`, which does not tell their bytes apart: the other may have ended, "
            "this one not",
            notes=notes(event.given),
            help="give each copy under way its own semaphore, as `done.at[slot]`, or wait for all of them before any "
            "buffer is used",
        )
