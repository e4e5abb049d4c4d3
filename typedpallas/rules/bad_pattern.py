"""`bad-pattern`."""

from collections.abc import Iterator

from typedpallas import pattern
from typedpallas.events import Context, Event, LaunchText
from typedpallas.rules.base import Example, Finding, Rule

_LAUNCH = """
import jax
import jax.numpy as jnp
from typing import Literal as L
import typedpallas as tp
from typedpallas import In, Multiple, Out, f32

ARGS = (jax.ShapeDtypeStruct((32, 128), jnp.float32),)

def double[BM: Multiple[L[8]], N: Multiple[L[128]]](
    x: In[tp.BLOCK, f32, BM, N],
    o: Out[tp.BLOCK, f32, BM, N],
) -> None:
    o[...] = x[...] * 2.0

doubled = tp.launch(double, {pattern}, grid="i")

def run(x: jax.Array) -> jax.Array:
    return doubled(x, BM=8)

def reference(x: jax.Array) -> jax.Array:
    return x * 2.0
"""


class BadPattern(Rule):
    """The pattern of a launch, or its grid, cannot be read.

    A pattern lists operands, separated by commas, inputs before `->` and outputs after it. Each part of an
    operand is `(i BM)` (blocks of `BM` along grid axis `i`), a grid axis (one element along it), a dim or a
    number (all of it). The names in `grid=` are the grid axes, and each of them occurs in the pattern.

    Machines: all. Source: `typedpallas.pattern.parse`, which the launch itself uses.
    """

    slug = "bad-pattern"
    judges = (LaunchText,)
    message = "the launch pattern cannot be read: {reason}"
    example = Example(
        bad=_LAUNCH.format(pattern='"(i BM N -> (i BM) N"'),
        good=_LAUNCH.format(pattern='"(i BM) N -> (i BM) N"'),
        targets=("tpu-v5e",),
        levels=("types",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, LaunchText)
        try:
            pattern.parse(event.pattern, event.grid)
        except pattern.PatternError as error:
            reason, *picture = str(error).split("\n")
            about_grid = not picture
            yield self.refuted(
                reason=reason,
                expected='a pattern such as `(i BM) (k BK) -> (i BM)` with `grid="i k"`',
                found=event.grid if about_grid else event.pattern,
                notes=tuple(picture),
                help=_edit(reason),
                blame="grid" if about_grid else "pattern",
            )


def _edit(reason: str) -> str:
    if "occurs nowhere" in reason:
        return "take the axis out of `grid=`, or cut a dim along it in the pattern"
    if "is not a grid axis" in reason:
        return "name the axis in `grid=`, or write the dim without parentheses"
    return ""
