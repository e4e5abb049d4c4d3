"""Triton kernels on ragged arrays: masked loads of whole rows, chunks and programs' shares, masks off by one.

As in `padding`, the kernel's text runs in numpy too, once for each thing that memory may hold behind an array.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import HEAD
from benchmarks.agreement.families.padding import in_numpy

type Array = np.ndarray[Any, Any]

_REDUCTIONS = {
    "sum": ("jnp.sum({})", "{} + {}", 0),
    "max": ("jnp.max({})", "jnp.maximum({}, {})", -99),
}
_RIGHT = ("{p} < {n}", "{p} <= {n} - 1", "({p} >= 0) & ({p} < {n})", "jnp.logical_not({p} >= {n})", "{p} + 1 < {n}")
_WRONG = ("{p} < {n} + 1", "{p} <= {n}", "{p} > -1")


@dataclass(frozen=True)
class GpuPadding(Case):
    """A reduction of each row, or one element for one. ``kind``: ``row``, ``chunks``, ``block``, ``share``."""

    family: ClassVar[str] = "gpu-padding"
    machine: ClassVar[str] = "gpu"

    rows: int
    columns: int
    width: int
    kind: str
    reduction: str
    mask: str
    late: bool
    """Whether a load has no mask of its own, and its value is masked."""

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """A few rows of a length that is no power of two."""
        columns = rng.choice((100, 200, 300, 500, 1000))
        kind = rng.choice(("row", "chunks", "block", "share"))
        whole = 1 << (columns - 1).bit_length()
        width = whole if kind in ("row", "block") else rng.choice((64, 128, 256))
        mask = rng.choice(_RIGHT if rng.random() < 0.6 else _WRONG)
        late = kind == "block" and rng.random() < 0.5
        return cls(rng.choice((1, 3, 8)), columns, width, kind, rng.choice(tuple(_REDUCTIONS)), mask, late)

    @property
    def grid(self) -> tuple[int, ...]:
        """Programs for each row, and for each share of it."""
        return (self.rows, -(-self.columns // self.width)) if self.kind == "share" else (self.rows,)

    def _load(self, start: str) -> str:
        neutral = _REDUCTIONS[self.reduction][2]
        mask = self.mask.format(p=f"({start} + jnp.arange({self.width}))", n=self.columns)
        if self.late:
            return f"jnp.where({mask}, x[...], jnp.float32({neutral}))"
        view = "x" if self.kind == "block" else f"x.at[pl.ds({start}, {self.width})]"
        return f"plt.load({view}, mask={mask}, other={float(neutral)})"

    def _body(self) -> list[str]:
        reduce, join, neutral = _REDUCTIONS[self.reduction]
        if self.kind == "share":
            start = f"pl.program_id(1) * {self.width}"
            inside = f"({start} + jnp.arange({self.width})) < {self.columns}"
            return [
                f"v = {self._load(start)}",
                f"plt.store(o.at[pl.ds({start}, {self.width})], v * 2, mask={inside})",
            ]
        if self.kind == "chunks":
            turns = -(-self.columns // self.width)
            return [
                "def chunk(j, best):",
                f"    return {join.format('best', reduce.format(self._load(f'j * {self.width}')))}",
                f"o[0] = jax.lax.fori_loop(0, {turns}, chunk, jnp.float32({neutral}))",
            ]
        return [f"o[0] = {reduce.format(self._load('(pl.program_id(0) * 0)'))}"]

    def _kernel(self) -> str:
        return "\n".join(["def kernel(x, o):", *("    " + line for line in self._body())])

    def source(self) -> str:
        """A module with one `pallas_call`."""
        index = "lambda i, j: (i, 0)" if self.kind == "share" else "lambda i: (i, 0)"
        size = self.width if self.kind == "block" else self.columns
        out = (self.rows, self.columns if self.kind == "share" else 1)
        return f"""{HEAD}
ARGS = (jax.ShapeDtypeStruct({(self.rows, self.columns)}, jnp.float32),)

{self._kernel()}

def run(x, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct({out}, jnp.float32),
        grid={self.grid},
        in_specs=[pl.BlockSpec((None, {size}), {index})],
        out_specs=pl.BlockSpec((None, {out[1]}), {index}),
        compiler_params=plt.CompilerParams(num_warps=4),
        interpret=interpret,
    )(x)
"""

    def oracle(self, inputs: Arrays) -> Outcome:
        """Runs every program in numpy with one thing after another behind the array."""
        found = [self._run(inputs[0], fill) for fill in (3.0, np.nan, 1000.0)]
        for other in found[1:]:
            if not np.array_equal(found[0], other, equal_nan=True):
                return Outcome(None, "garbage: what lies behind an array changes the result")
        return Outcome((found[0],))

    def _run(self, x: Array, fill: float) -> Array:
        result = np.zeros((self.rows, self.columns if self.kind == "share" else 1), np.float32)
        for point in np.ndindex(self.grid):
            size = self.width if self.kind == "block" else self.columns
            kernel = in_numpy(self._kernel(), point, self.grid, plt=SimpleNamespace(load=load, store=store))
            kernel(_Ref(x[point[0]], size, fill), _Ref(result[point[0]], 0, fill))
        return result


class _Ref:
    """One row of an array, which goes on behind its end: a ref whose window has so many elements."""

    def __init__(self, row: Array, size: int, fill: float) -> None:
        self.row = row
        self.memory = np.concatenate([row, np.full(4096, fill, row.dtype)])
        self.size = size

    @property
    def at(self) -> Any:
        """Views of it."""
        return _Views(self)

    def __getitem__(self, index: Any) -> Array:
        return self.memory[: self.size]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.row[index] = value


class _Views:
    def __init__(self, ref: _Ref) -> None:
        self.ref = ref

    def __getitem__(self, index: slice) -> tuple[_Ref, slice]:
        return self.ref, index


def load(view: Any, mask: Array, other: float) -> Array:
    """A masked load."""
    value = view[...] if isinstance(view, _Ref) else view[0].memory[view[1]]
    return np.where(mask, value, np.float32(other))


def store(view: tuple[_Ref, slice], value: Array, mask: Array) -> None:
    """A masked store; what would go behind the row is dropped."""
    ref, index = view
    inside = ref.row[index]
    ref.row[index] = np.where(mask, value, 0)[: len(inside)]
