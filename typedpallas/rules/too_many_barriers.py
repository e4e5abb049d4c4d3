"""`too-many-barriers`."""

from collections.abc import Iterator

from typedpallas.events import BarrierGroup, Context, Event
from typedpallas.rules.base import Example, Finding, Rule

_MOST = 32
_MODULE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

ARGS = (jax.ShapeDtypeStruct((128, 64), jnp.float32),)

def kernel(x, o, tile, arrived):
    plgpu.copy_gmem_to_smem(x, tile, arrived.at[0])
    plgpu.barrier_wait(arrived.at[0])
    o[...] = tile[...] * 2.0

def run(x):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((128, 64), jnp.float32),
        scratch_types=[plgpu.SMEM((128, 64), jnp.float32), plgpu.Barrier(num_barriers={count})],
    )(x)

def reference(x):
    return x * 2.0
"""


class TooManyBarriers(Rule):
    """One `plgpu.Barrier` of more than 32 barriers.

    Mosaic GPU keeps the phases of a group of barriers in the bits of one 32-bit register.

    Machines: GPU (Mosaic GPU). Source: its lowering ("Only up to 32 barriers per group supported"), asked for 32 and
    33 on h100 and b200.
    """

    slug = "too-many-barriers"
    judges = (BarrierGroup,)
    message = "`{name}` has too many barriers: expected at most {expected}, found {found}"
    example = Example(bad=_MODULE.format(count=33), good=_MODULE.format(count=32), targets=("h100",))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, BarrierGroup)
        if event.count > _MOST:
            yield self.refuted(
                name=event.name,
                expected=str(_MOST),
                found=str(event.count),
                help="use fewer, by using each again in its next phase, or several `plgpu.Barrier`s",
            )
