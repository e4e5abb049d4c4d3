"""`missing-size`."""

from collections.abc import Iterator

from typedpallas.events import CallSizes, Context, Event
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
    return doubled(x, {sizes})

def reference(x: jax.Array) -> jax.Array:
    return x * 2.0
"""


class MissingSize(Rule):
    """Nothing gives a block its size.

    The size of a block is named in the call, bound in advance, or is a number in the kernel's annotation; the
    arrays cannot tell it.

    Machines: all. Source: the launch's own pattern.
    """

    slug = "missing-size"
    judges = (CallSizes,)
    message = "nothing gives `{launch}` the size of {found}: expected {expected}"
    example = Example(
        bad=_LAUNCH.format(sizes="BM=8"),
        good=_LAUNCH.format(sizes="BM=8, BN=128"),
        targets=("tpu-v5e",),
        levels=("types", "trace"),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, CallSizes)
        missing = [name for name in event.needed if name not in event.given]
        if missing and event.complete:
            yield self.refuted(
                launch=event.launch,
                found=" and ".join(f"`{name}`" for name in missing),
                expected=f"`{', '.join(f'{name}=...' for name in missing)}` in the call or in `.bind(...)`",
                help="a block size comes from the call, from `.bind`, or from a number in the kernel's annotation",
            )
