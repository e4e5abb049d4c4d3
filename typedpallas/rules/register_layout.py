"""`register-layout`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, Reduced
from typedpallas.rules.base import Example, Finding, Rule

_MODULE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

ARGS = (jax.ShapeDtypeStruct((4, 128, 32), jnp.float32),)
TILES = (plgpu.TilingTransform((8, 32)), plgpu.SwizzleTransform(128))

def kernel(x_gmem, o_gmem, buffer, barrier):
    {body}

def run(x):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((4, 32), jnp.float32),
        scratch_types=[plgpu.SMEM({shape}, jnp.float32, transforms=TILES), plgpu.Barrier()],
        compiler_params=plgpu.CompilerParams(lowering_semantics=plgpu.LoweringSemantics.Warpgroup),
    )(x)

def reference(x):
    return x.sum(1)
"""
_BAD = """plgpu.copy_gmem_to_smem(x_gmem, buffer, barrier)
    plgpu.barrier_wait(barrier)
    o_gmem[...] = jnp.sum(buffer[...], axis=1)"""
_GOOD = """for i in range(4):
        plgpu.copy_gmem_to_smem(x_gmem.at[i], buffer, barrier)
        plgpu.barrier_wait(barrier)
        o_gmem[i] = jnp.sum(buffer[...], axis=0)"""


class RegisterLayout(Rule):
    """An array of three or more axes is reduced along one of its last two, where the compiler is to find a layout in
    registers by itself.

    With `LoweringSemantics.Warpgroup` Mosaic GPU infers how arrays lie in registers. It spreads the last two axes
    over the threads; for more axes it has no layout in which one of the last two can be reduced. Reductions of
    leading axes, of all axes at once, and of matrices are fine. Kernels that name a layout, or get one from a matrix
    product, are left alone.

    Machines: GPU (Mosaic GPU). Source: its layout inference, asked for sums, maxima and minima of loaded arrays of
    three and four axes along every axis, tiled and not, in 32 and 16 bits, on h100 and b200.
    """

    slug = "register-layout"
    judges = (Reduced,)
    message = "`{primitive}` of a `{shape}` array has no layout in registers: expected {expected}, found {found}"
    example = Example(
        bad=_MODULE.format(body=_BAD, shape="(4, 128, 32)"),
        good=_MODULE.format(body=_GOOD, shape="(128, 32)"),
        targets=("h100",),
        runs=False,
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Reduced)
        rank = len(event.shape)
        axes = {axis % rank for axis in event.axes}
        inner = {rank - 2, rank - 1}
        if rank < 3 or not axes & inner or axes == set(range(rank)):
            return
        if any(event.shape[axis] == 1 for axis in inner):
            return
        axis = min(axes & inner)
        yield self.refuted(
            primitive=event.primitive,
            shape=event.shape,
            expected="a matrix, or a reduction of leading axes alone",
            found=f"axis {axis} of {rank}",
            help="work on matrices, one leading index at a time: `buffer[i]`; or name a layout with "
            "`plgpu.layout_cast`",
        )
