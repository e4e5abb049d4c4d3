"""`copy-not-waited`."""

from collections.abc import Iterator

from typedpallas.events import Context, CopyLeft, Event, SemaphoreLeft
from typedpallas.rules import _moments
from typedpallas.rules._steps import at_step, notes, verdict, where
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ARGS = (jax.ShapeDtypeStruct((16, 128), jnp.float32),)

def kernel(x_ref, o_ref, buffer_ref, done_ref):
    copies = [
        pltpu.make_async_copy(x_ref.at[pl.ds(8 * k, 8), :], buffer_ref.at[k], done_ref.at[k]) for k in range(2)
    ]
    for copy in copies:
        copy.start()
    for copy in copies[:{waited}]:
        copy.wait()
    o_ref[...] = buffer_ref[0]

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((2, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,))],
    )(x)

def reference(x):
    return x[:8]
"""


class CopyNotWaited(Rule):
    """A copy is started, and nothing waits for it before the kernel ends.

    A DMA semaphore counts bytes: a start adds those of the copy, a wait takes those of its destination, and one wait
    may cover several copies. What is left when the kernel ends, or when the semaphore's scope does, stops the core
    ("semaphore has a nonzero value upon exit") or lets a copy write to memory that is somebody else's by then.

    Where a start or a wait hangs on data, each way that the kernel tells apart is followed by itself: a copy that is
    left wherever a condition holds, or wherever a loop makes turns, is refused with a number for which it happens;
    one that is left for some numbers alone stays open. A copy to another device is waited for twice: by
    `wait_send` where it starts, by `wait_recv` where it comes, which is every device since all run the same.

    On GPUs a copy out of shared memory must have been waited for with ``wait_smem_to_gmem`` when the kernel ends, for
    the memory may be another block's then, and somebody must wait at the barrier of a copy into it. An H200 waits by
    itself (10 runs of 40,000 blocks, no wrong element), which nobody promises: that stays open.

    Machines: TPU; GPU (Mosaic GPU). Source: vllm-project/tpu-inference#412; JAX's TPU interpret mode reports
    semaphores with a count when a kernel ends, its GPU interpret mode copies that still run.
    """

    slug = "copy-not-waited"
    judges = (SemaphoreLeft, CopyLeft)
    message = "a copy to `{target}` is never waited for: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(waited=1),
        good=_KERNEL.format(waited=2),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, CopyLeft):
            yield self._on_gpu(event)
            return
        assert isinstance(event, SemaphoreLeft)
        if event.counts != "bytes" or event.target is None:
            return
        amount = "some bytes" if event.left is None else f"{event.left} bytes"
        when = "where the copy is started, " if event.sometimes else where(event.given)
        yield verdict(self, event.given)(
            target=event.target,
            expected=f"waits on `{event.semaphore}` for all that is started on it",
            found=f"{amount} that nothing waits for",
            witness=f"{when}`{event.semaphore}` still counts {amount} at the end, from the copy `{event.source}` -> "
            f"`{event.target}` started{at_step(event.step, 'this line')}",
            notes=notes(event.given, event.shared),
            help="call `wait()` on the copy, on every path and in every step that starts one",
        )

    def _on_gpu(self, event: CopyLeft) -> Finding:
        wait = "`plgpu.wait_smem_to_gmem(0)`" if event.barrier is None else f"a wait for `{event.barrier}`"
        return self.open(
            target=event.buffer if event.direction == "copy to" else f"global memory, from `{event.buffer}`",
            expected=f"{wait} after it",
            found="no wait at all",
            witness=f"the copy was begun {_moments.by(event.when)}, and the kernel ends",
            help=f"put {wait} after the last copy, in the warpgroup that begins it",
        )
