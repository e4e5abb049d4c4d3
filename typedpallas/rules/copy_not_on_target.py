"""`copy-not-on-target`."""

import math
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


_NONE = "loads and stores of values", "an asynchronous copy", "load the value and store it: `buffer[...] = x[...]`"


class CopyNotOnTarget(Rule):
    """An asynchronous copy of a kind that the GPU does not have.

    From Hopper on (compute capability 9.0) the copy engine moves blocks both ways, and a copy into shared memory
    arrives at a barrier. Before it, threads copy into shared memory only: without a barrier (`wait_gmem_to_smem`
    awaits them), and the kernel has to promise that they stay within the array. They copy a contiguous part: of any
    other one the wrong elements arrive, and nothing says so. Its elements divide into 4 or 8 bytes for each of 128
    threads at a time. Before Ampere there are no such copies.

    Machines: GPU (Mosaic GPU). Source: its lowering, asked for each kind on t4, a100, h100 and b200; the
    addresses in the module that it makes for a part of the columns.
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
        if chip.capability < (8, 0):
            wrong: tuple[str, str, str] | None = _NONE
        else:
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
    return _by_threads(event) if event.tiling == "none" else None


def _by_threads(event: BulkCopy) -> tuple[str, str, str] | None:
    """What a copy that threads do demands of a part that has no tiling in shared memory."""
    sizes = [size for size in event.box if size is not None]
    if len(sizes) < len(event.box):
        return None
    count = math.prod(sizes)
    if not _contiguous(event):
        written = " x ".join(map(str, sizes))
        advice = (
            "copy whole rows, or load the part and store it: a part that is not contiguous is copied as if it were"
        )
        return "a contiguous part of the array", f"{written} of {' x '.join(map(str, event.array))}", advice
    if count % _THREADS_OF_A_WARPGROUP:
        return (
            f"a multiple of {_THREADS_OF_A_WARPGROUP} elements",
            f"{count}",
            "copy more, or load and store the values",
        )
    each = _bytes_of_a_thread(count // _THREADS_OF_A_WARPGROUP, event.bits)
    if each not in _TRANSFERS:
        found = f"{count} elements of {event.bits} bits, {each:g} bytes at a time"
        return "4 or 8 bytes for each thread at a time", found, "copy more at once, or load and store the values"
    return None


_THREADS_OF_A_WARPGROUP = 128
_TRANSFERS = (4, 8, 16)
"""Bytes that one thread can copy at a time."""
_WIDEST = 64
"""Bits that one thread copies at a time at most."""


def _contiguous(event: BulkCopy) -> bool:
    pairs = list(zip(event.box, event.array, strict=True))
    while pairs and pairs[0][0] == 1:
        pairs.pop(0)
    return all(size == whole for size, whole in pairs[1:])


def _bytes_of_a_thread(elements: int, bits: int) -> float:
    """``elements``: of one thread. It copies as many at a time as divide them, halving from the widest."""
    at_once = min(_WIDEST // bits, elements)
    while at_once > 1 and elements % at_once:
        at_once //= 2
    return at_once * bits / 8
