"""`read-before-wait`."""

from collections.abc import Iterator

from typedpallas.events import Context, CopyInUse, Event, SharedInUse
from typedpallas.rules import _moments
from typedpallas.rules._steps import USES, at_step, notes, verdict, where
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
    {body}

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


class ReadBeforeWait(Rule):
    """A buffer is used while a copy is under way: its destination is read or written, or its source overwritten.

    A copy that was started ends at some time before the wait for it returns, and nobody knows when: what is loaded
    from its destination until then may be old, what is stored there may be lost, and what is stored to its source may
    or may not be copied. A second copy that starts from, or goes to, the same elements is such a use too.

    On GPUs a copy into shared memory is waited for at its barrier (`cp.async` copies with ``wait_gmem_to_smem``), a
    copy out of it with ``wait_smem_to_gmem(n)``, after which at most the last ``n`` groups still read.

    Machines: TPU; GPU (Mosaic GPU). Source: JAX's TPU interpret mode with `detect_races=True`, and its
    `dma_execution_mode="on_wait"`; JAX's GPU interpret mode.
    """

    slug = "read-before-wait"
    judges = (CopyInUse, SharedInUse)
    message = "`{buffer}` is used while a copy {direction} it is under way: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(body="o_ref[...] = buffer_ref[...] * 2.0\n    copy.wait()"),
        good=_KERNEL.format(body="copy.wait()\n    o_ref[...] = buffer_ref[...] * 2.0"),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, SharedInUse):
            yield from self._on_gpu(event)
            return
        assert isinstance(event, CopyInUse)
        if event.other is not None:
            return
        action = USES[event.how]
        began = at_step(event.started, "an earlier line")
        yield verdict(self, event.given)(
            buffer=event.buffer,
            direction="to" if event.side == "target" else "from",
            expected=f"a wait on `{event.semaphore}` first",
            found=f"{action}{at_step(event.step)}",
            witness=f"{where(event.given)}the copy `{event.source}` -> `{event.target}` was started{began} and "
            f"is not waited for before {action}",
            notes=notes(event.given),
            help=f"move the wait on `{event.semaphore}` before this line, or use another buffer",
        )

    def _on_gpu(self, event: SharedInUse) -> Iterator[Finding]:
        if event.other not in ("copy to", "copy from"):
            return
        wait = "`plgpu.wait_smem_to_gmem`" if event.other == "copy from" else "`plgpu.wait_gmem_to_smem`"
        wait = wait if event.barrier is None else f"a wait for `{event.barrier}`"
        action = _moments.DONE[event.use]
        yield self.refuted(
            buffer=event.buffer,
            direction="to" if event.other == "copy to" else "from",
            expected=f"{wait} first",
            found=action,
            witness=f"the copy was begun {_moments.by(event.began)}; {action} {_moments.by(event.when, event.began)} "
            "is not ordered after its end",
            help=f"put {wait} before this line, in every turn, or use another buffer",
        )
