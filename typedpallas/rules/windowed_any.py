"""`windowed-any`."""

from collections.abc import Iterator

from typedpallas import spaces
from typedpallas.events import Argument, Context, Event
from typedpallas.rules.base import Example, Finding, Rule

_LAUNCH = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from typing import Literal as L
import typedpallas as tp
from typedpallas import In, Out, Scratch, f32
from typedpallas.tpu import HBM, VMEM

ARGS = (jax.ShapeDtypeStruct((32, 128), jnp.float32),)

def double(
    x: In[HBM, f32, L[{rows}], L[128]],
    o: Out[VMEM, f32, L[8], L[128]],
    stage: Scratch[VMEM, f32, L[8], L[128]],
) -> None:
    pltpu.sync_copy(x.at[{index}], stage)
    o[...] = stage[...] * 2.0

doubled = tp.launch(double, "{operand} -> (i 8) 128", grid="i", dims={{"i": 4}})

def run(x: jax.Array) -> jax.Array:
    return doubled(x)

def reference(x: jax.Array) -> jax.Array:
    return x * 2.0
"""


class WindowedAny(Rule):
    """An operand that stays where it is, in `HBM` or `ANY`, is cut along the grid.

    Blocks are copied into on-chip memory step by step. An operand that is left in `HBM` or `ANY` gets no such
    copies: the kernel sees the whole array and copies the part that it wants.

    Machines: TPU. Source: JAX's Mosaic TPU lowering asks for a trivial window there.
    """

    slug = "windowed-any"
    judges = (Argument,)
    message = "`{name}` of `{kernel}` is in `{space}` and is cut along the grid: expected {expected}, found {found}"
    example = Example(
        bad=_LAUNCH.format(rows=8, operand="(i 8) 128", index="pl.ds(0, 8)"),
        good=_LAUNCH.format(rows=32, operand="32 128", index="pl.ds(pl.program_id(0) * 8, 8)"),
        targets=("tpu-v5e",),
        levels=("types",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Argument)
        space = event.ref.space
        if space is None or space.windowed or not space.data or not event.windowed:
            return
        yield self.refuted(
            name=event.ref.name,
            kernel=event.kernel,
            space=spaces.name(space),
            expected="the whole array",
            found=event.source,
            help="name its whole dims, and copy the block in the kernel"
            + (f" with {space.reach}" if space.reach else "")
            + "; or let the launch copy it: annotate it as `tp.BLOCK`",
        )
