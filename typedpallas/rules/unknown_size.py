"""`unknown-size`."""

import difflib
from collections.abc import Iterator

from typedpallas.events import CallSizes, Context, Event
from typedpallas.rules.base import Example, Finding, Rule

_LAUNCH = """
import jax
import jax.numpy as jnp
from typing import Literal as L
import typedpallas as tp
from typedpallas import In, Multiple, Out, f32

ARGS = (jax.ShapeDtypeStruct((64, 128), jnp.float32),)

def double[BM: Multiple[L[8]], N: Multiple[L[128]]](
    x: In[tp.BLOCK, f32, BM, N],
    o: Out[tp.BLOCK, f32, BM, N],
) -> None:
    o[...] = x[...] * 2.0

doubled = tp.launch(double, "(i BM) N -> (i BM) N", grid="i")

def run(x: jax.Array) -> jax.Array:
    return doubled(x, {sizes})

def reference(x: jax.Array) -> jax.Array:
    return x * 2.0
"""


class UnknownSize(Rule):
    """A call names a size that its launch does not have.

    The sizes of a launch are the names in its pattern that are not grid axes, and the type parameters of its
    kernel.

    Machines: all. Source: the launch's own pattern.
    """

    slug = "unknown-size"
    judges = (CallSizes,)
    message = "`{launch}` has no size `{found}`: expected {expected}"
    example = Example(
        bad=_LAUNCH.format(sizes="BM=8, BN=128"),
        good=_LAUNCH.format(sizes="BM=8"),
        targets=("tpu-v5e",),
        levels=("types", "trace"),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, CallSizes)
        for name in event.given:
            if name in event.known:
                continue
            near = difflib.get_close_matches(name, event.known, n=1, cutoff=0.4)
            yield self.refuted(
                launch=event.launch,
                found=name,
                expected=_listed(event.known),
                help=f"did you mean `{near[0]}`?" if near else "",
                blame=f"size[{name}]",
            )


def _listed(names: tuple[str, ...]) -> str:
    quoted = ", ".join(f"`{name}`" for name in names)
    return f"one of {quoted}" if len(names) > 1 else quoted or "no sizes"
