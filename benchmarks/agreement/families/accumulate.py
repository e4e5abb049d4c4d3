"""A result that stays while some grid axes run: ``o += sum(x)``, set to zero at their first step, or not."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import HEAD, divisors, map_function, map_text, spec_text
from benchmarks.agreement.simulate import Defect, Grid, Operand, Tainted, launch


@dataclass(frozen=True)
class Accumulate(Case):
    """Blocks of a matrix added up along one axis of the grid, on a TPU."""

    family: ClassVar[str] = "accumulate"
    machine: ClassVar[Literal["tpu", "gpu"]] = "tpu"

    rows: int
    columns: int
    block: tuple[int, int]
    dtype: str
    grid: tuple[int, ...]
    row_axis: int
    sum_axis: int
    start: Literal["first", "never", "last", "wrong-axis", "always"]
    parallel: tuple[bool, ...]

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """A grid over rows and columns in either order, with an idle axis of one step now and then."""
        rows, columns = rng.choice((16, 32, 64, 128)), rng.choice((128, 256, 512, 1024))
        block = (
            rng.choice([k for k in divisors(rows) if k % 8 == 0]),
            rng.choice([k for k in divisors(columns) if k % 128 == 0]),
        )
        row_axis, sum_axis = rng.choice(((0, 1), (0, 1), (0, 1), (1, 0)))
        counts = {row_axis: rows // block[0], sum_axis: columns // block[1]}
        grid = [counts[0], counts[1]]
        if rng.random() < 0.3:
            grid.append(rng.choice((1, 1, 2)))
        start = rng.choices(("first", "never", "last", "wrong-axis", "always"), (8, 1, 1, 1, 1))[0]
        parallel = [rng.random() < 0.4 for _ in grid]
        if rng.random() < 0.8:
            parallel[sum_axis] = False
        if cls.machine == "gpu":
            parallel = [True] * len(grid)
        return cls(
            rows,
            columns,
            block,
            rng.choice(("float32", "bfloat16", "int32")),
            tuple(grid),
            row_axis,
            sum_axis,
            start,
            tuple(parallel),
        )

    def in_order(self) -> Self:
        """Without parallel axes."""
        return replace(self, parallel=(False,) * len(self.parallel))

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(f"g{i}" for i in range(len(self.grid)))

    @property
    def _read(self) -> str:
        return map_text(self._names, [f"g{self.row_axis}", f"g{self.sum_axis}"])

    @property
    def _write(self) -> str:
        return map_text(self._names, [f"g{self.row_axis}", "0"])

    def source(self) -> str:
        """A module with one `pallas_call`."""
        n = self.grid[self.sum_axis]
        condition = {
            "first": f"pl.program_id({self.sum_axis}) == 0",
            "never": "pl.program_id(0) < 0",
            "last": f"pl.program_id({self.sum_axis}) == {n - 1}",
            "wrong-axis": f"pl.program_id({self.row_axis}) == 0",
            "always": "pl.program_id(0) >= 0",
        }[self.start]
        kinds = tuple("parallel" if free else "arbitrary" for free in self.parallel)
        params = f"pltpu.CompilerParams(dimension_semantics={kinds!r})"
        if self.machine == "gpu":
            params = "plt.CompilerParams(num_warps=4)"
        out_block = (self.block[0], self.block[1])
        return f"""{HEAD}
ARGS = (jax.ShapeDtypeStruct({(self.rows, self.columns)!r}, jnp.{self.dtype}),)

def kernel(x, o):
    @pl.when({condition})
    def _():
        o[...] = jnp.zeros_like(o)
    o[...] += x[...]

def run(x, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct({(self.rows, self.block[1])!r}, jnp.{self.dtype}),
        grid={self.grid!r},
        in_specs=[{spec_text(self.block, self._read)}],
        out_specs={spec_text(out_block, self._write)},
        compiler_params={params},
        interpret=interpret,
    )(x)
"""

    def oracle(self, inputs: Arrays) -> Outcome:
        """Runs the grid in numpy."""
        (x,) = inputs
        read = Operand(x.shape, self.block, map_function(self._read))
        write = Operand((self.rows, self.block[1]), self.block, map_function(self._write))
        grid = Grid(self.machine, self.grid, self.parallel)
        try:
            values = launch(grid, [(x, read)], (x.dtype, write), self._step, ())
        except Defect as defect:
            return Outcome(None, str(defect))
        return Outcome((values,))

    def _step(self, point: tuple[int, ...], blocks: object, out: Tainted, scratch: object) -> None:
        (x,) = blocks  # type: ignore[misc]
        k = point[self.sum_axis]
        starts = {
            "first": k == 0,
            "never": False,
            "last": k == self.grid[self.sum_axis] - 1,
            "wrong-axis": point[self.row_axis] == 0,
            "always": True,
        }
        if starts[self.start]:
            out.values[...] = 0
            out.garbage[...] = False
        out.values[...] = out.values + x.values
        out.garbage |= x.garbage


@dataclass(frozen=True)
class GpuAccumulate(Accumulate):
    """The same on a GPU, where every grid axis is parallel: a race unless nothing is revisited."""

    family: ClassVar[str] = "gpu-accumulate"
    machine: ClassVar[Literal["tpu", "gpu"]] = "gpu"
