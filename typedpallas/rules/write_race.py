"""`write-race`."""

from collections.abc import Iterator

from typedpallas.chips import TpuTarget
from typedpallas.events import Context, Event, GridAxis, IndexMap
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((64, 1024), jnp.float32),)

def kernel(x_ref, o_ref):
    o_ref[...] = jnp.sum(x_ref[...], axis=1)

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(({cells},), jnp.float32),
        grid=(64,),
        in_specs=[pl.BlockSpec((1, 1024), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1,), lambda i: ({cell},)),
    )(x){then}

def reference(x):
    return jnp.sum(x){wanted}
"""


class WriteRace(Rule):
    """Programs that run at the same time store different values to the same elements of an output.

    On a GPU every two programs of a grid may run at once. On a TPU those may that differ along a grid axis declared
    `parallel`: a chip with two cores in one device (v5p) splits it between them, and each core writes its own copy
    back; a chip with one core runs it in order all the same. Atomic updates, stores under a condition
    that one program meets, and stores of the same value by all are no race.

    Machines: GPU; TPU with a `parallel` axis. Source: CUDA's memory model; Pallas's documentation of
    `dimension_semantics`.
    """

    slug = "write-race"
    judges = (IndexMap, GridAxis)
    message = "programs race on `{name}`: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(cells=1, cell="0", then="", wanted="[None]"),
        good=_KERNEL.format(cells=64, cell="i", then=".sum()[None]", wanted="[None]"),
        targets=("h100",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, GridAxis):
            yield from self._axis(event)
            return
        assert isinstance(event, IndexMap)
        if event.role != "out" or event.visits is None or event.visits.shared is None:
            return
        if event.collides == "no" or event.whole_result is False or _runs_in_order(context):
            return
        first, second, block, axis = event.visits.shared
        certain = event.collides == "yes" and (context.machine == "gpu" or context.target is not None)
        make = self.refuted if certain else self.open
        yield make(
            blame="map",
            name=event.name,
            expected="each block stored by one program",
            found=f"programs {first} and {second} at block {block}",
            witness=f"grid points {first} and {second} differ along axis {axis} and both visit block {block}",
            help=_help(context, axis),
        )

    def _axis(self, event: GridAxis) -> Iterator[Finding]:
        if event.in_output or not event.declared_parallel:
            return
        yield self.refuted(
            name=event.output,
            expected=f"an output that depends on the parallel grid axis `{event.axis}`",
            found=f"all steps along `{event.axis}` on one block",
            help=f"leave `{event.axis}` out of `parallel=`: then its steps run in order and may add up",
        )


def _runs_in_order(context: Context) -> bool:
    """Whether the chip has one core in a device, so that even `parallel` axes run in order."""
    return isinstance(context.target, TpuTarget) and context.target.cores == 1


def _help(context: Context, axis: int) -> str:
    if context.machine == "tpu":
        return f'declare grid axis {axis} `"arbitrary"`: its steps then run in order'
    return f"let the output depend on grid axis {axis}, loop over that axis inside the kernel, or add atomically"
