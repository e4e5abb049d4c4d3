"""`not-a-multiple`."""

from collections.abc import Iterator

from typedpallas import solve
from typedpallas.events import Context, DimSize, Event
from typedpallas.rules.base import Example, Finding, Rule

_LAUNCH = """
import jax
import jax.numpy as jnp
from typing import Literal as L
import typedpallas as tp
from typedpallas import In, Multiple, Out, f32

ARGS = (jax.ShapeDtypeStruct((64, 256), jnp.float32),)

def double[BM: Multiple[L[8]], BN: Multiple[L[128]]](
    x: In[tp.BLOCK, f32, BM, BN],
    o: Out[tp.BLOCK, f32, BM, BN],
) -> None:
    o[...] = x[...] * 2.0

doubled = tp.launch(double, "(i BM) (j BN) -> (i BM) (j BN)", grid="i j")

def run(x: jax.Array) -> jax.Array:
    return doubled(x, BM=8, BN={columns})

def reference(x: jax.Array) -> jax.Array:
    return x * 2.0
"""


class NotAMultiple(Rule):
    """A dim gets a size that breaks the promise of its bound.

    `BN: Multiple[L[128]]` says that the kernel is right for multiples of 128; alignment of slices and tiles is
    proved from it. A launch keeps the promise.

    Machines: all. Source: the kernel's own signature.
    """

    slug = "not-a-multiple"
    judges = (DimSize,)
    message = "`{dim}` = {found} breaks its bound: expected a multiple of {expected}"
    example = Example(
        bad=_LAUNCH.format(columns=64),
        good=_LAUNCH.format(columns=128),
        targets=("tpu-v5e",),
        levels=("types", "trace"),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, DimSize)
        if isinstance(solve.divides(event.multiple, event.size, context.facts), solve.Refuted):
            yield self.refuted(
                dim=event.dim,
                expected=event.multiple,
                found=event.size,
                notes=(
                    f"the size is {event.origin}",
                    f"`{event.dim}` is declared `{event.dim}: Multiple[L[{event.multiple}]]`",
                ),
                help=_nearest(event),
            )


def _nearest(event: DimSize) -> str:
    """The legal sizes on both sides of a number."""
    size = event.size.const
    if size is None:
        return ""
    below, above = size // event.multiple * event.multiple, -(-size // event.multiple) * event.multiple
    legal = [f"{event.dim}={value}" for value in dict.fromkeys((below, above)) if value > 0]
    return f"use {' or '.join(legal)}"
