"""`copy-space-pair`."""

from collections.abc import Iterator

from typedpallas import tpu
from typedpallas.chips import TpuTarget
from typedpallas.events import Context, Copied, Event
from typedpallas.rules.base import Example, Finding, Rule
from typedpallas.spaces import MemorySpace

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ARGS = (jax.ShapeDtypeStruct((8, 128), jnp.float32),)

def kernel(x_ref, o_ref, buffer_ref, done_ref):
    def move(source, target):
        copy = pltpu.make_async_copy(source, target, done_ref)
        copy.start()
        copy.wait()

{body}

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA],
    )(x)

def reference(x):
    return x
"""

_OLDEST_WITH_ALL = 4
"""The first generation whose copies join any two spaces of a TensorCore."""
_REFUSED = ((tpu.HBM, tpu.HBM), (tpu.VMEM, tpu.SMEM), (tpu.SMEM, tpu.VMEM), (tpu.SMEM, tpu.SMEM))


class CopySpacePair(Rule):
    """A copy between two memory spaces that the chip's copies do not join.

    On TPU v2 and v3 copies go between HBM and VMEM, between HBM and SMEM, and within VMEM; not within HBM, not
    within SMEM and not between VMEM and SMEM, and none goes to another device. From v4 on every pair of HBM, VMEM and
    SMEM works.

    Machines: TPU v2, v3. Source: libtpu 0.0.48, asked for every pair of spaces on every chip from v2 to 7x
    ("SupportsDmasBetweenMemorySpaces"), and for copies to other devices, which crash it on v2 and v3
    ("DmaLengthGranule"); Pallas lowers all of them.
    """

    slug = "copy-space-pair"
    judges = (Copied,)
    message = "no copy goes from `{source}` to `{target}` on this chip: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(body="    move(x_ref, o_ref)"),
        good=_KERNEL.format(body="    move(x_ref, buffer_ref)\n    move(buffer_ref, o_ref)"),
        targets=("tpu-v3",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Copied)
        target = context.target
        if not isinstance(target, TpuTarget) or target.generation >= _OLDEST_WITH_ALL:
            return
        if event.remote:
            yield self.refuted(
                source=event.source.name,
                target=event.target.name,
                expected="a copy within the device",
                found="one to another device",
                notes=(f"from generation {_OLDEST_WITH_ALL} on, copies reach other devices",),
                help="let XLA move it between devices: `jax.lax.ppermute`, `jax.lax.all_gather`",
            )
            return
        pair = _in_memory(event.source.space), _in_memory(event.target.space)
        if pair not in _REFUSED:
            return
        names = [f"{space.__name__}" for space in pair if space is not None]
        yield self.refuted(
            source=event.source.name,
            target=event.target.name,
            expected="a copy between HBM and VMEM, between HBM and SMEM, or within VMEM",
            found=f"one from {names[0]} to {names[1]}",
            notes=(f"from generation {_OLDEST_WITH_ALL} on, copies join any two of these",),
            help=_help(pair),
        )


def _in_memory(space: type[MemorySpace] | None) -> type[MemorySpace] | None:
    """Where an operand that may be anywhere is: in HBM."""
    return tpu.HBM if space is tpu.ANY else space


def _help(pair: tuple[type[MemorySpace] | None, type[MemorySpace] | None]) -> str:
    if pair == (tpu.HBM, tpu.HBM):
        return "copy to a buffer in VMEM, and from there on"
    return "copy between HBM and SMEM, or load and store what is in SMEM one word at a time"
