"""Blocked matrix products with an accumulator: element types, precisions, tiles, initialisation."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import HEAD


@dataclass(frozen=True)
class Matmul(Case):
    """``x @ y`` over a grid ``i j k`` with a float32 (or int32) scratch accumulator, on a TPU."""

    family: ClassVar[str] = "matmul"
    machine: ClassVar[Literal["tpu", "gpu"]] = "tpu"

    sizes: tuple[int, int, int]
    tiles: tuple[int, int, int]
    dtype: str
    start: Literal["first", "never"]
    end: Literal["last", "first"]
    semantics: tuple[str, str, str]
    transposed: bool
    precision: str

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Mostly right; sometimes not initialised, stored too early, or with k declared parallel."""
        sizes = tuple(rng.choice((128, 256, 512)) for _ in range(3))
        least = (8, 128, 128) if rng.random() < 0.8 else (8, 8, 8)
        tiles = tuple(
            rng.choice([t for t in (8, 16, 32, 64, 128, 256, 512) if low <= t <= size])
            for low, size in zip(least, sizes, strict=True)
        )
        return cls(
            (sizes[0], sizes[1], sizes[2]),
            (tiles[0], tiles[1], tiles[2]),
            rng.choice(("float32", "bfloat16", "bfloat16", "int8")),
            rng.choices(("first", "never"), (9, 1))[0],
            rng.choices(("last", "first"), (9, 1))[0],
            ("parallel", "parallel", rng.choices(("arbitrary", "parallel"), (9, 1))[0]),
            rng.random() < 0.2,
            rng.choices(("None", '"highest"'), (5, 1))[0],
        )

    def in_order(self) -> Self:
        """Without parallel axes."""
        return replace(self, semantics=("arbitrary",) * 3)

    @property
    def _accumulator(self) -> str:
        return "int32" if self.dtype == "int8" else "float32"

    def source(self) -> str:
        """A module with one `pallas_call`."""
        (m, n, k), (bm, bn, bk) = self.sizes, self.tiles
        turns = k // bk
        start = "pl.program_id(2) == 0" if self.start == "first" else "pl.program_id(2) < 0"
        end = turns - 1 if self.end == "last" else 0
        y_shape, y_block, y_map = ((k, n), (bk, bn), "(k, j)")
        if self.transposed:
            y_shape, y_block, y_map = ((n, k), (bn, bk), "(j, k)")
        contract = "(((1,), (1,)), ((), ()))" if self.transposed else "(((1,), (0,)), ((), ()))"
        return f"""{HEAD}
ARGS = (
    jax.ShapeDtypeStruct({(m, k)!r}, jnp.{self.dtype}),
    jax.ShapeDtypeStruct({y_shape!r}, jnp.{self.dtype}),
)

def kernel(x, y, o, acc):
    @pl.when({start})
    def _():
        acc[...] = jnp.zeros_like(acc)
    acc[...] += jax.lax.dot_general(
        x[...], y[...], {contract}, preferred_element_type=jnp.{self._accumulator}, precision={self.precision}
    )
    @pl.when(pl.program_id(2) == {end})
    def _():
        o[...] = acc[...]

def run(x, y, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct({(m, n)!r}, jnp.{self._accumulator}),
        grid={(m // bm, n // bn, turns)!r},
        in_specs=[
            pl.BlockSpec({(bm, bk)!r}, lambda i, j, k: (i, k)),
            pl.BlockSpec({y_block!r}, lambda i, j, k: {y_map}),
        ],
        out_specs=pl.BlockSpec({(bm, bn)!r}, lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM({(bm, bn)!r}, jnp.{self._accumulator})],
        compiler_params=pltpu.CompilerParams(dimension_semantics={self.semantics!r}),
        interpret=interpret,
    )(x, y)
"""

    def oracle(self, inputs: Arrays) -> Outcome:
        """The product, unless the accumulator or the result is wrong."""
        x, y = (a.astype(np.int64 if self.dtype == "int8" else np.float32) for a in inputs)
        turns = self.sizes[2] // self.tiles[2]
        if self.start == "never":
            return Outcome(None, "garbage: the accumulator is never initialised")
        if self.semantics[2] == "parallel" and turns > 1:
            return Outcome(None, "race: steps along k may run at once and write one block")
        if self.end == "first" and turns > 1:
            x = x[:, : self.tiles[2]]
            y = y[:, : self.tiles[2]] if self.transposed else y[: self.tiles[2]]
        product = x @ (y.T if self.transposed else y)
        return Outcome((product.astype(self._accumulator),))
