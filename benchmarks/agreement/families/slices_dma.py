"""Copies of parts of buffers between HBM and VMEM, by slices and by integers, from starts in many forms, on a TPU."""

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
    *((64, 128), (64, 256), (64, 256), (48, 256), (32, 384), (8, 128), (40, 100), (12, 256), (5, 256)),
    *((3, 16, 256), (4, 8, 128), (4, 2, 256), (1024,), (2048,), (1000,)),
)
_PROGRAMS = 2


@dataclass(frozen=True)
class SliceCopies(Case):
    """Each program copies one slice: out of HBM, out of VMEM, or into VMEM."""

    family: ClassVar[str] = "slice-copies"
    machine: ClassVar[Literal["tpu", "gpu"]] = "tpu"

    shape: tuple[int, ...]
    dtype: str
    axis: int
    size: int
    start: Start
    squeezed: bool
    way: Literal["from HBM", "from VMEM", "to VMEM"]

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Any slice of one axis, constants among the starts; about half fit."""
        shape = rng.choice(_SHAPES)
        axis = rng.randrange(len(shape))
        minor = axis == len(shape) - 1
        size = min(rng.choice((128, 128, 256, 64, 512) if minor else (8, 8, 16, 1, 2, 3, 4, 12, 32)), shape[axis])
        squeezed = not minor and rng.random() < 0.25
        if rng.random() < 0.5:
            start = Start(
                str(rng.randrange(shape[axis] - size + 1) // (64 if minor else 1) * (64 if minor else 1)), 1
            )
        else:
            units = (128, 128, 256, 64, 512) if minor else (8, 8, 16, 32, 4, 2, 1)
            start = Start.draw(rng, units)
            while start.reads_data and not start.stays(shape[axis] - (1 if squeezed else size), _PROGRAMS, _PROGRAMS):
                start = Start.draw(rng, units)
        ways: tuple[Literal["from HBM", "from VMEM", "to VMEM"], ...] = ("from HBM", "from VMEM", "to VMEM")
        return cls(shape, rng.choice(_DTYPES), axis, 1 if squeezed else size, start, squeezed, rng.choice(ways))

    def _moved(self) -> tuple[int, ...]:
        sizes = [self.size if axis == self.axis else extent for axis, extent in enumerate(self.shape)]
        if self.squeezed:
            del sizes[self.axis]
        return tuple(sizes)

    def _result(self) -> tuple[int, ...]:
        return self.shape if self.way == "to VMEM" else self._moved()

    def source(self) -> str:
        """A module with one `pallas_call`; whole buffers are copied to where the slice needs them."""
        taken = "at" if self.squeezed else f"pl.ds(at, {self.size})"
        index = ", ".join(taken if axis == self.axis else ":" for axis in range(len(self.shape)))
        steps = {
            "from HBM": (f"pltpu.sync_copy(x.at[{index}], part)", "pltpu.sync_copy(part, o.at[i])"),
            "from VMEM": ("pltpu.sync_copy(x, whole)", f"pltpu.sync_copy(whole.at[{index}], o.at[i])"),
            "to VMEM": (
                "whole[...] = jnp.zeros_like(whole)",
                f"pltpu.sync_copy(x, whole.at[{index}])",
                "pltpu.sync_copy(whole, o.at[i])",
            ),
        }[self.way]
        operand = self._moved() if self.way == "to VMEM" else self.shape
        lines = "\n    ".join(steps)
        return f"""{HEAD}from jax import lax

ARGS = (jax.ShapeDtypeStruct((2,), jnp.int32), jax.ShapeDtypeStruct({operand!r}, jnp.{self.dtype}))

def kernel(s, x, o, whole, part):
    i = pl.program_id(0)
    k = i
    at = {self.start.text}
    {lines}

def run(s, x, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(({_PROGRAMS}, *{self._result()!r}), jnp.{self.dtype}),
        grid=({_PROGRAMS},),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[
            pltpu.VMEM({self.shape!r}, jnp.{self.dtype}),
            pltpu.VMEM({self._moved()!r}, jnp.{self.dtype}),
        ],
        interpret=interpret,
    )(s, x)
"""

    def inputs(self, rng: np.random.Generator) -> Arrays:
        """Scalars that keep every promise, and small numbers."""
        x = self.build().avals[1]
        return [np.array(self.start.scalars(), np.int32), rng.integers(-4, 5, x.shape).astype(x.dtype)]

    def oracle(self, inputs: Arrays) -> Outcome:
        """What each program copies."""
        s, x = inputs
        out = np.zeros((_PROGRAMS, *self._result()), x.dtype)
        for i in range(_PROGRAMS):
            low = self.start.at(i, i, [int(v) for v in s], _PROGRAMS)
            if low < 0 or low + self.size > self.shape[self.axis]:
                return Outcome(None, f"slice out of range: {low} to {low + self.size} of {self.shape[self.axis]}")
            where: list[Any] = [slice(None)] * len(self.shape)
            where[self.axis] = low if self.squeezed else slice(low, low + self.size)
            if self.way == "to VMEM":
                out[i][tuple(where)] = x
            else:
                out[i] = x[tuple(where)]
        return Outcome((out,))
