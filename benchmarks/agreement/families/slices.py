"""Slices inside a block: static and dynamic starts, aligned or not, inside or past the end."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import HEAD

_DTYPES = ("float32", "float32", "bfloat16", "int32")


@dataclass(frozen=True)
class Slices(Case):
    """A loop that moves ``size`` rows (or lanes) at ``start + i * step`` from the operand to the result, on a TPU."""

    family: ClassVar[str] = "slices"
    machine: ClassVar[Literal["tpu", "gpu"]] = "tpu"

    shape: tuple[int, int]
    dtype: str
    axis: int
    start: int
    step: int
    size: int
    turns: int
    dynamic: bool

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Mostly slices that cover the axis once; sometimes shifted, of odd size or too long."""
        shape = (rng.choice((16, 32, 64)), rng.choice((128, 256, 512)))
        axis = rng.choice((0, 0, 1))
        size = rng.choice((8, 8, 16, 16, 1, 4, 12) if axis == 0 else (128, 128, 256, 64, 100))
        turns = max(1, shape[axis] // size)
        start, step = 0, size
        if rng.random() < 0.2:
            start = rng.choice((1, 4, 8, 64, 128))
        if rng.random() < 0.1:
            turns += 1
        return cls(shape, rng.choice(_DTYPES), axis, start, step, size, turns, rng.random() < 0.6)

    def source(self) -> str:
        """A module with one `pallas_call`."""
        at = f"pl.ds({self.start} + i * {self.step}, {self.size})"
        index = f"{at}, slice(None)" if self.axis == 0 else f"slice(None), {at}"
        loop = f"pl.loop(0, {self.turns})" if self.dynamic else f"unrolled({self.turns})"
        return f"""{HEAD}
ARGS = (jax.ShapeDtypeStruct({self.shape!r}, jnp.{self.dtype}),)

def unrolled(turns):
    def call(body):
        for i in range(turns):
            body(i)
    return call

def kernel(x, o):
    o[...] = jnp.zeros_like(o)
    @{loop}
    def _(i):
        o[{index}] = x[{index}] * 2

def run(x, interpret=False):
    return pl.pallas_call(kernel, out_shape=ARGS[0], interpret=interpret)(x)
"""

    def oracle(self, inputs: Arrays) -> Outcome:
        """Doubles what the slices reach."""
        (x,) = inputs
        out = np.zeros_like(x)
        for i in range(self.turns):
            low = self.start + i * self.step
            if low + self.size > self.shape[self.axis]:
                return Outcome(None, f"slice out of range: {low} to {low + self.size} of {self.shape[self.axis]}")
            where = [slice(None), slice(None)]
            where[self.axis] = slice(low, low + self.size)
            out[tuple(where)] = x[tuple(where)] * 2
        return Outcome((out,))
