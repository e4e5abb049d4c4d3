"""`copy-not-on-target`."""

from collections.abc import Iterator

from typedpallas.chips import GpuTarget
from typedpallas.events import BulkCopy, Context, Event
from typedpallas.rules.base import Example, Finding, Rule

_MODULE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

ARGS = (jax.ShapeDtypeStruct((64, 64), jnp.float32),)

def kernel(x, o, tile{barrier}):
    {copy}
    o[...] = tile[...] * 2.0

def run(x):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((64, 64), jnp.float32),
        scratch_types=[plgpu.SMEM((64, 64), jnp.float32){scratch}],
    )(x)

def reference(x):
    return x * 2.0
"""
_ENGINE = """plgpu.copy_gmem_to_smem(x, tile, arrived)
    plgpu.barrier_wait(arrived)"""
_THREADS = """plgpu.copy_gmem_to_smem(x, tile, oob_mode=plgpu.OOBFillMode.PROMISE_IN_BOUNDS)
    plgpu.wait_gmem_to_smem(0)"""


class CopyNotOnTarget(Rule):
    """An asynchronous copy of a kind that the GPU does not have.

    From Hopper on (compute capability 9.0) the copy engine moves blocks both ways, and a copy into shared memory
    arrives at a barrier. Before it, threads copy into shared memory only: without a barrier (`wait_gmem_to_smem`
    awaits them), and the kernel has to promise that they stay within the array.

    Machines: GPU (Mosaic GPU). Source: its lowering, asked for each kind on a100, h100 and b200.
    """

    slug = "copy-not-on-target"
    judges = (BulkCopy,)
    message = "`{name}` cannot be copied so on {target}: expected {expected}, found {found}"
    example = Example(
        bad=_MODULE.format(barrier=", arrived", copy=_ENGINE, scratch=", plgpu.Barrier()"),
        good=_MODULE.format(barrier="", copy=_THREADS, scratch=""),
        targets=("a100",),
        runs=False,
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, BulkCopy)
        chip = context.target
        if not isinstance(chip, GpuTarget):
            return
        wrong = _since_hopper(event) if chip.capability >= (9, 0) else _before(event)
        if wrong is not None:
            expected, found, advice = wrong
            yield self.refuted(name=event.name, target=chip.name, expected=expected, found=found, help=advice)


def _since_hopper(event: BulkCopy) -> tuple[str, str, str] | None:
    if event.outward or event.barrier:
        return None
    advice = "add a `plgpu.Barrier()`, hand it to the copy, and wait for it instead of `wait_gmem_to_smem`"
    return "a copy that arrives at a barrier", "a copy without one", advice


def _before(event: BulkCopy) -> tuple[str, str, str] | None:
    if event.outward:
        advice = f"store values to `{event.name}` instead: `{event.name}[...] = {event.shared}[...]`"
        return "a store of values", "a copy out of shared memory", advice
    if event.barrier:
        advice = "leave the barrier out, and wait with `plgpu.wait_gmem_to_smem`"
        return "a copy without a barrier", "one with a barrier", advice
    if not event.promised:
        advice = "copy whole blocks only, and say `oob_mode=plgpu.OOBFillMode.PROMISE_IN_BOUNDS`"
        return "a promise that it stays within the array", "none", advice
    return None
