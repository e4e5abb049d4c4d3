"""One pass over blocks: ``o[...] = f(x[...], y[...])`` with right and wrong blocks, grids and index maps."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import (
    GPU_DTYPES,
    HEAD,
    TPU_DTYPES,
    block_size,
    broken_index,
    map_function,
    map_text,
    spec_text,
    steps,
)
from benchmarks.agreement.simulate import Defect, Grid, Operand, Tainted, launch

_DIMS = (1, 2, 8, 16, 24, 32, 64, 96, 100, 128, 130, 200, 256, 384, 512, 1000, 1024)
_BODIES = ("double", "add", "rowsum", "where")


@dataclass(frozen=True)
class Blocks(Case):
    """An elementwise pass, or a sum of each row, on a TPU."""

    family: ClassVar[str] = "blocks"
    machine: ClassVar[Literal["tpu", "gpu"]] = "tpu"
    dtypes: ClassVar[tuple[str, ...]] = TPU_DTYPES
    odd: ClassVar[float] = 0.25

    shape: tuple[int, ...]
    block: tuple[int | None, ...]
    dtype: str
    body: str
    grid: tuple[int, ...]
    names: tuple[str, ...]
    read: tuple[str, ...]
    write: tuple[str, ...]
    parallel: tuple[bool, ...]

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """A shape of rank 1 to 4, a block for each dim, a grid over the dims that are cut."""
        shape = cls._shape(rng)
        block: list[int | None] = [block_size(rng, dim, cls.odd) for dim in shape]
        for i in range(len(shape) - 1):
            if rng.random() < 0.2 and len([b for b in block if b is not None]) > 1:
                block[i] = None
        counts = [steps(dim, size or 1) for dim, size in zip(shape, block, strict=True)]
        names = tuple(f"g{i}" for i in range(len(shape)))
        order = rng.sample(range(len(shape)), len(shape)) if rng.random() < 0.3 else list(range(len(shape)))
        grid = [counts[i] for i in order]
        index = [names[order.index(i)] for i in range(len(shape))]
        read, write = list(index), list(index)
        for which in (read, write):
            if rng.random() < 0.15:
                at = rng.randrange(len(which))
                which[at] = broken_index(rng, which[at], counts[at])
        if rng.random() < 0.07:
            at = rng.randrange(len(grid))
            grid[at] = max(1, grid[at] + rng.choice([-1, 1]))
        parallel = tuple(cls.machine == "gpu" or rng.random() < 0.3 for _ in grid)
        body = rng.choice(_BODIES)
        return cls(
            shape, tuple(block), rng.choice(cls.dtypes), body, tuple(grid), names, tuple(read), tuple(write), parallel
        )

    @classmethod
    def _shape(cls, rng: random.Random) -> tuple[int, ...]:
        while True:
            rank = rng.choice((1, 2, 2, 2, 3, 4))
            shape = tuple(rng.choice(_DIMS) for _ in range(rank))
            if np.prod(shape) <= 1 << 18:
                return shape

    def in_order(self) -> Self:
        """Without parallel axes."""
        return replace(self, parallel=(False,) * len(self.parallel))

    def source(self) -> str:
        """A module with one `pallas_call`."""
        spec = spec_text(self.block, map_text(self.names, self.read))
        out = spec_text(self.block, map_text(self.names, self.write))
        body = {
            "double": "o[...] = x[...] * 2 + y[...]",
            "add": "o[...] = x[...] + y[...]",
            "rowsum": "o[...] = x[...] + jnp.sum(y[...], axis=-1, keepdims=True).astype(y.dtype)",
            "where": "o[...] = jnp.where(x[...] > 0, x[...], y[...])",
        }[self.body]
        return f"""{HEAD}
ARGS = (jax.ShapeDtypeStruct({self.shape!r}, jnp.{self.dtype}),) * 2

def kernel(x, y, o):
    {body}

def run(x, y, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=ARGS[0],
        grid={self.grid!r},
        in_specs=[{spec}] * 2,
        out_specs={out},
        compiler_params={self._params()},
        interpret=interpret,
    )(x, y)
"""

    def _params(self) -> str:
        kinds = tuple("parallel" if free else "arbitrary" for free in self.parallel)
        return f"pltpu.CompilerParams(dimension_semantics={kinds!r})"

    def oracle(self, inputs: Arrays) -> Outcome:
        """Runs the grid in numpy."""
        read = Operand(self.shape, self.block, map_function(map_text(self.names, self.read)))
        write = Operand(self.shape, self.block, map_function(map_text(self.names, self.write)))
        grid = Grid(self.machine, self.grid, self.parallel)
        try:
            values = launch(
                grid, [(array, read) for array in inputs], (inputs[0].dtype, write), lambda *a: self._step(*a), ()
            )
        except Defect as defect:
            return Outcome(None, str(defect))
        return Outcome((values,))

    def _step(self, point: tuple[int, ...], blocks: list[Tainted], out: Tainted, scratch: object) -> None:
        x, y = blocks
        garbage = x.garbage | y.garbage
        if self.body == "double":
            values = x.values * 2 + y.values
        elif self.body == "add":
            values = x.values + y.values
        elif self.body == "rowsum":
            total = y.values.sum(axis=-1, keepdims=True, dtype=np.float32)
            values = (x.values + total.astype(y.values.dtype)).astype(y.values.dtype)
            garbage = x.garbage | y.garbage.any(axis=-1, keepdims=True)
        else:
            values = np.where(x.values > 0, x.values, y.values)
        out.values[...] = values
        out.garbage[...] = garbage


@dataclass(frozen=True)
class GpuBlocks(Blocks):
    """The same through Triton, where every grid axis is parallel and blocks are powers of two."""

    family: ClassVar[str] = "gpu-blocks"
    machine: ClassVar[Literal["tpu", "gpu"]] = "gpu"
    dtypes: ClassVar[tuple[str, ...]] = GPU_DTYPES
    odd: ClassVar[float] = 0.15

    def _params(self) -> str:
        return "plt.CompilerParams(num_warps=4)"
