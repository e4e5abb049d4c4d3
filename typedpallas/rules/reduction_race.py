"""`reduction-race`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, WarpReduction
from typedpallas.rules.base import Example, Finding, Rule

_MODULE = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

ARGS = (jax.ShapeDtypeStruct((4, 32, 128), jnp.float32),)

def kernel(x, o):
    row = lax.axis_index("{axis}")
    o[row] = jnp.full((128,), jnp.sum(x[row]))

def run(x):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((4, 128), jnp.float32),
        {mesh},
    )(x)

def reference(x):
    return jnp.broadcast_to(x.sum((1, 2))[:, None], (4, 128))
"""


class ReductionRace(Rule):
    """Several warpgroups of a block reduce across their warps at the same time.

    A reduction to one number goes across the four warps of a warpgroup, through shared memory, and so does one over
    the rows of a matrix that lies as `wgmma` leaves it. Mosaic GPU reserves room for it once for the whole block
    (`reduction_scratch_bytes`), so warpgroups that reduce at the same time write over each other's parts. Nothing
    says so: the kernel compiles, and is right as long as the warpgroups happen to be apart. The lowering for single
    lanes refuses such kernels for this reason.

    Machines: GPU (Mosaic GPU). Source: sums of small whole numbers on an H200: of 20 launches with 4 warpgroups all
    were wrong, of sums over rows also with 2, with 1 none; the offset of the room in the lowered module, which is the
    same for all warpgroups.
    """

    slug = "reduction-race"
    judges = (WarpReduction,)
    message = "{found} warpgroups do `{what}` of {operand} at once: expected one at a time, for they share its room"
    example = Example(
        bad=_MODULE.format(axis="group", mesh='num_threads=4, thread_name="group"'),
        good=_MODULE.format(axis="block", mesh='grid=(4,), grid_names=("block",)'),
        targets=("h100",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, WarpReduction)
        if event.ordered:
            return
        yield self.refuted(
            what=event.what,
            operand=f"`{event.operand}`",
            expected="one at a time",
            found=f"{event.warpgroups}",
            help="reduce in one warpgroup only (`pl.when` on its index), or along columns, which each warp has "
            "whole, and the rest in the next kernel",
        )
