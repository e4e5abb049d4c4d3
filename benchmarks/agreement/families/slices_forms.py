"""Loads and stores of parts of a ref of any rank, by slices and by integers, from starts in many forms, on a TPU."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import HEAD
from benchmarks.agreement.families.starts import Start

_DTYPES = ("float32", "float32", "bfloat16", "bfloat16", "int32", "int8", "int16")
_SHAPES = (
    (64, 128),
    (64, 256),
    (48, 256),
    (16, 512),
    (8, 128),
    (40, 100),
    (3, 16, 256),
    (4, 8, 128),
    (1024,),
    (2048,),
)
_TURNS, _PROGRAMS = 2, 2


@dataclass(frozen=True)
class SliceForms(Case):
    """Each program moves one slice of the operand, or to a buffer, in the last of two turns."""

    family: ClassVar[str] = "slice-forms"
    machine: ClassVar[Literal["tpu", "gpu"]] = "tpu"

    shape: tuple[int, ...]
    dtype: str
    axis: int
    size: int
    start: Start
    squeezed: bool
    stores: bool

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Any slice of one axis; about half of the starts fit."""
        shape = rng.choice(_SHAPES)
        axis = rng.randrange(len(shape))
        minor = axis == len(shape) - 1
        size = rng.choice((128, 128, 256, 64, 512) if minor else (8, 8, 16, 1, 2, 32, 4))
        squeezed = not minor and rng.random() < 0.25
        units = (128, 128, 256, 64, 512) if minor else (8, 8, 8, 16, 32, 4, 1)
        size = 1 if squeezed else min(size, shape[axis])
        start = Start.draw(rng, units)
        while start.reads_data and not start.stays(shape[axis] - size, _PROGRAMS, _TURNS):
            start = Start.draw(rng, units)
        return cls(shape, rng.choice(_DTYPES), axis, size, start, squeezed, rng.random() < 0.4)

    def _moved(self) -> tuple[int, ...]:
        return tuple(self.size if axis == self.axis else extent for axis, extent in enumerate(self.shape))

    def _result(self) -> tuple[int, ...]:
        return self.shape if self.stores else self._moved()

    def source(self) -> str:
        """A module with one `pallas_call`."""
        moved = self._moved()
        taken = "at" if self.squeezed else f"pl.ds(at, {self.size})"
        index = ", ".join(taken if axis == self.axis else ":" for axis in range(len(self.shape)))
        other = ", ".join("0" if axis == self.axis and self.squeezed else ":" for axis in range(len(self.shape)))
        move = f"o[0, {other}] = x[{index}]"
        if self.stores:
            move = f"b[{index}] = x[{other}]"
        after = "o[0] = b[...]" if self.stores else "pass"
        operand = moved if self.stores else self.shape
        zeros = ", ".join("0" for _ in self.shape)
        return f"""{HEAD}from jax import lax

ARGS = (jax.ShapeDtypeStruct((2,), jnp.int32), jax.ShapeDtypeStruct({operand!r}, jnp.{self.dtype}))

def kernel(s, x, o, b):
    b[...] = jnp.zeros_like(b)
    i = pl.program_id(0)
    @pl.loop(0, {_TURNS})
    def _(k):
        at = {self.start.text}
        {move}
    {after}

def run(s, x, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(({_PROGRAMS}, *{self._result()!r}), jnp.{self.dtype}),
        grid=({_PROGRAMS},),
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM),
            pl.BlockSpec({operand!r}, lambda i: ({zeros}{"," if len(operand) == 1 else ""})),
        ],
        out_specs=pl.BlockSpec((1, *{self._result()!r}), lambda i: (i, {zeros})),
        scratch_shapes=[pltpu.VMEM({self.shape!r}, jnp.{self.dtype})],
        interpret=interpret,
    )(s, x)
"""

    def inputs(self, rng: np.random.Generator) -> Arrays:
        """Scalars that keep every promise, and small numbers."""
        x = self.build().avals[1]
        return [np.array(self.start.scalars(), np.int32), rng.integers(-4, 5, x.shape).astype(x.dtype)]

    def oracle(self, inputs: Arrays) -> Outcome:
        """What each program has moved after its last turn."""
        s, x = inputs
        out = np.zeros((_PROGRAMS, *self._result()), x.dtype)
        for i in range(_PROGRAMS):
            for k in range(_TURNS):
                low = self.start.at(i, k, [int(v) for v in s], _PROGRAMS)
                if low < 0 or low + self.size > self.shape[self.axis]:
                    return Outcome(None, f"slice out of range: {low} to {low + self.size} of {self.shape[self.axis]}")
                where: list[Any] = [slice(None)] * len(self.shape)
                where[self.axis] = slice(low, low + self.size)
                if self.stores:
                    out[i][tuple(where)] = x
                else:
                    out[i] = x[tuple(where)]
        return Outcome((out,))
