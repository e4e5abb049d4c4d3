"""`block-conflict`."""

from collections.abc import Iterator

from typedpallas import solve
from typedpallas.events import Context, DimSize, Event
from typedpallas.rules.base import Example, Finding, Rule

_CALL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from typing import Literal as L
from typedpallas import In, Multiple, Out, f32
from typedpallas.tpu import VMEM

ARGS = (jax.ShapeDtypeStruct((64, 256), jnp.float32), jax.ShapeDtypeStruct((64, 256), jnp.float32))

def add[BM: Multiple[L[8]], BN: Multiple[L[128]]](
    x: In[VMEM, f32, BM, BN],
    y: In[VMEM, f32, BM, BN],
    o: Out[VMEM, f32, BM, BN],
) -> None:
    o[...] = x[...] + y[...]

def run(x: jax.Array, y: jax.Array) -> jax.Array:
    return pl.pallas_call(
        add,
        grid=(8, 2),
        in_specs=[
            pl.BlockSpec((8, 128), lambda i, j: (i, j)),
            pl.BlockSpec(({rows}, 128), lambda i, j: (i, j)),
        ],
        out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((64, 256), jnp.float32),
    )(x, y)

def reference(x: jax.Array, y: jax.Array) -> jax.Array:
    return x + y
"""


class BlockConflict(Rule):
    """Two places of one launch give a dim two different sizes.

    A type parameter of a kernel is one number for the whole launch, wherever it comes from: the block of an
    operand, the shape of an array, a size named in the call.

    Machines: all. Source: the kernel's own signature.
    """

    slug = "block-conflict"
    judges = (DimSize,)
    message = "`{dim}` has two sizes: expected {expected}, found {found}"
    example = Example(
        bad=_CALL.format(rows=16),
        good=_CALL.format(rows=8),
        targets=("tpu-v5e",),
        levels=("types",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, DimSize)
        if event.earlier is None:
            return
        size, origin = event.earlier
        verdict = solve.equal(size, event.size, context.facts)
        if isinstance(verdict, solve.Refuted):
            yield self.refuted(
                dim=event.dim,
                expected=f"{size}, {origin}",
                found=f"{event.size}, {event.origin}",
                witness=", ".join(f"{name} = {value}" for name, value in sorted(verdict.witness.items())),
                help=f"make both {size}"
                + (", or give one of the two another type parameter" if event.dim.isidentifier() else ""),
            )
