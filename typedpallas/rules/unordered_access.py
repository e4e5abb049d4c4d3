"""`unordered-access`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, SharedInUse
from typedpallas.rules._moments import BEGUN, DONE, by
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

ARGS = (jax.ShapeDtypeStruct((1024, 128), jnp.float32),)

def kernel(x_gmem, o_gmem, slots, o_smem, filled, freed):
    group = lax.axis_index("group")

    @pl.when(group == 0)
    def _():
        @pl.loop(0, 8)
        def _(step):
            slot = lax.rem(step, 2)
            plgpu.barrier_wait(filled.at[slot])
            {body}
            plgpu.wait_smem_to_gmem(0)
            o_smem[...] = value * 2.0
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[pl.ds(step * 128, 128)])

        plgpu.wait_smem_to_gmem(0)

    @pl.when(group == 1)
    def _():
        @pl.loop(0, 8)
        def _(step):
            slot = lax.rem(step, 2)
            pl.when(step >= 2)(lambda: plgpu.barrier_wait(freed.at[slot]))
            plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(step * 128, 128)], slots.at[slot], filled.at[slot])

        @pl.loop(0, 2)
        def _(slot):
            plgpu.barrier_wait(freed.at[slot])

def run(x):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((1024, 128), jnp.float32),
        scratch_types=[
            plgpu.SMEM((2, 128, 128), jnp.float32),
            plgpu.SMEM((128, 128), jnp.float32),
            plgpu.Barrier(num_barriers=2),
            plgpu.Barrier(num_barriers=2),
        ],
        num_threads=2,
        thread_name="group",
    )(x)

def reference(x):
    return x * 2.0
"""
_LOAD, _FREE = "value = slots[slot]", "plgpu.barrier_arrive(freed.at[slot])"


class UnorderedAccess(Rule):
    """Two warpgroups, or a warpgroup and a copy that another began, use the same shared memory in no order.

    What one warpgroup does is ordered before what another does only by a barrier: arrived at after the first, waited
    for before the second. A slot of a ring that is given back before it is read, or not waited for before it is
    filled again, is the usual mistake: what is read may be old, new, or some of both. Two stores are left alone, as
    both may store the same.

    Machines: GPU (Mosaic GPU). Source: the ordering of PTX's ``mbarrier``; JAX's GPU interpret mode reports some of
    these as races. The compiler takes them.
    """

    slug = "unordered-access"
    judges = (SharedInUse,)
    message = "`{buffer}` is used by two in no order: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(body=f"{_FREE}\n            {_LOAD}"),
        good=_KERNEL.format(body=f"{_LOAD}\n            {_FREE}"),
        targets=("h100", "h200"),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, SharedInUse)
        if event.other not in ("load", "store"):
            return
        yield self.refuted(
            buffer=event.buffer,
            expected=f"a barrier between the {event.other} and {DONE[event.use]}",
            found="none",
            witness=f"`{event.buffer}` is {BEGUN[event.other]} {by(event.began)}; {DONE[event.use]} "
            f"{by(event.when, event.began)} may come before that or after it",
            help=f"arrive at a barrier after the {event.other}, and wait for it before this line",
        )
