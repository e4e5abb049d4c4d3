"""`load-from-hbm`."""

from collections.abc import Iterator

from typedpallas import spaces
from typedpallas.events import Access, Context, Event
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from typing import Literal as L
import typedpallas as tp
from typedpallas import In, Out, Scratch, f32
from typedpallas.tpu import HBM, VMEM

ARGS = (jax.ShapeDtypeStruct((32, 128), jnp.float32),)

def kernel(
    table: In[HBM, f32, L[32], L[128]],
    out: Out[VMEM, f32, L[8], L[128]],
    stage: Scratch[VMEM, f32, L[8], L[128]],
) -> None:
    {body}

def run(table: jax.Array) -> jax.Array:
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pltpu.HBM)],
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
    )(table)

def reference(table: jax.Array) -> jax.Array:
    return table[8:16] * 3.0
"""


class LoadFromHbm(Rule):
    """A vector is loaded from, or stored to, a space that only copies reach.

    A TPU core's vector unit works on VMEM. An operand left in `HBM` or `ANY` is an address, not a value: data
    gets in and out by a copy (`pltpu.sync_copy`, `pltpu.make_async_copy`) to or from a VMEM buffer.

    Machines: TPU. Source: JAX's Mosaic TPU lowering refuses both ("Loads are only allowed on VMEM and SMEM
    references"), on every chip.
    """

    slug = "load-from-hbm"
    judges = (Access,)
    message = "cannot {verb} `{name}` in `{space}`: expected a copy through VMEM, found a direct {op}"
    example = Example(
        bad=_KERNEL.format(body="out[...] = table[pl.ds(8, 8), :] * 3.0"),
        good=_KERNEL.format(body="pltpu.sync_copy(table.at[pl.ds(8, 8), :], stage)\n    out[...] = stage[...] * 3.0"),
        targets=("tpu-v5e",),
        levels=("types", "trace"),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Access)
        space = event.ref.space
        if space is None or space.machine != "tpu" or not space.data:
            return
        allowed = space.loads if event.op == "load" else space.stores
        if allowed != "none" or context.machine == "gpu":
            return
        target = "from it into" if event.op == "load" else "to it from"
        copied = f"copy {target} a VMEM scratch with {space.reach}, and {event.op} there"
        yield self.refuted(
            name=event.ref.name,
            space=spaces.name(space),
            op=event.op,
            verb="load from" if event.op == "load" else "store to",
            expected="a copy through VMEM",
            found=f"a direct {event.op}",
            help=copied if space.reach else "keep it in VMEM",
        )
