"""Values of one dim in a kernel: sums over lanes, columns and rows of refs, spread, compared, selected, stored."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import HEAD


@dataclass
class _Pool:
    """The names of the values that there are so far, of one dim and of two, and the statements that made them."""

    rng: random.Random
    ones: list[str]
    twos: list[str]
    lines: list[str]

    def one(self) -> str:
        return self.rng.choice(self.ones)

    def two(self) -> str:
        return self.rng.choice(self.twos)

    def make(self, names: list[str], text: str) -> None:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        names.append(name)


def _reduced(pool: _Pool) -> None:
    how = pool.rng.choice(("sum", "max", "min", "argmax"))
    if how == "argmax":
        pool.make(pool.ones, f"jnp.argmax({pool.two()}, axis=1).astype(jnp.float32)")
    else:
        pool.make(pool.ones, f"jnp.clip(jnp.{how}({pool.two()}, axis=1), -8, 8)")


def _taken(pool: _Pool) -> None:
    pool.make(pool.ones, pool.rng.choice(("column[:, 0]", "row[0]", "column.reshape(-1)", "row.reshape(-1)")))


def _added(pool: _Pool) -> None:
    pool.make(pool.ones, f"jnp.{pool.rng.choice(('add', 'maximum', 'subtract'))}({pool.one()}, {pool.one()})")


def _selected(pool: _Pool) -> None:
    pool.make(pool.ones, f"jnp.where({pool.one()} > 0, {pool.one()}, {pool.one()})")


def _spread(pool: _Pool) -> None:
    pool.make(pool.twos, f"jnp.clip({pool.two()} + {pool.one()}[:, None], -8, 8)")


def _masked(pool: _Pool) -> None:
    mask = pool.rng.choice(("({v} > 0)[:, None]", "{v}[:, None] > 0")).format(v=pool.one())
    pool.make(pool.twos, f"jnp.where({mask}, {pool.two()}, 0.0)")


def _summed(pool: _Pool) -> None:
    pool.make(pool.twos, f"jnp.clip({pool.two()} + jnp.sum({pool.one()}), -8, 8)")


_STEPS: tuple[Callable[[_Pool], None], ...] = (
    *(_reduced, _reduced, _reduced, _taken, _added, _added),
    *(_selected, _spread, _spread, _masked, _summed),
)


@dataclass(frozen=True)
class Vectors(Case):
    """A chain of operations on a block and on vectors of as many elements as it has rows."""

    family: ClassVar[str] = "vectors"
    machine: ClassVar[str] = "tpu"

    rows: int
    columns: int
    lines: tuple[str, ...]
    result: str
    dims: int
    """Of the result."""

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Two to six operations, and one of the values that they make as the result."""
        pool = _Pool(rng, ["flat"], ["block"], [])
        for _ in range(rng.randint(2, 6)):
            rng.choice(_STEPS)(pool)
        dims = rng.choice((1, 2))
        result = (pool.ones if dims == 1 else pool.twos)[-1]
        rows, columns = rng.choice((1, 8, 16, 100, 128, 256)), rng.choice((1, 64, 128, 256))
        return cls(rows, columns, tuple(pool.lines), result, dims)

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.rows, self.columns)[: self.dims]

    def source(self) -> str:
        """A module with one `pallas_call`."""
        body = "\n    ".join(self.lines)
        shapes = [(self.rows, self.columns), (self.rows,), (self.rows, 1), (1, self.rows)]
        arrays = ", ".join(f"jax.ShapeDtypeStruct({shape!r}, jnp.float32)" for shape in shapes)
        return f"""{HEAD}
ARGS = ({arrays})

def kernel(block_ref, flat_ref, column_ref, row_ref, o_ref):
    block, flat, column, row = block_ref[...], flat_ref[...], column_ref[...], row_ref[...]
    {body}
    o_ref[...] = {self.result}

def run(block, flat, column, row, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct({self._shape!r}, jnp.float32),
        interpret=interpret,
    )(block, flat, column, row)
"""

    def oracle(self, inputs: Arrays) -> Outcome:
        """The same statements, by numpy."""
        names = dict(zip(("block", "flat", "column", "row"), inputs, strict=True)) | {"jnp": np}
        for line in self.lines:
            exec(line, names)
        return Outcome((np.asarray(names[self.result], np.float32),))
