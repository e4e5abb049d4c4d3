"""A grid of blocks, step by step in numpy, by the rules of the machine.

Every array carries a mask of garbage: elements past an array's end, results never written, a result's window
on its return after another one (TPUs do not fetch results back), scratch before its first store. What sticks out of
a result is dropped on a TPU, and written past the array by Triton.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

type Array = np.ndarray[Any, Any]


class Defect(Exception):
    """The kernel does something undefined; the words say what."""


@dataclass
class Tainted:
    """Values with a mask of those that are garbage."""

    values: Array
    garbage: Array

    @staticmethod
    def clean(values: Array) -> Tainted:
        """Values that are all meant."""
        return Tainted(values, np.zeros(values.shape, bool))

    @staticmethod
    def unwritten(shape: tuple[int, ...], dtype: Any) -> Tainted:
        """A buffer that nobody has stored to."""
        return Tainted(np.zeros(shape, dtype), np.ones(shape, bool))


@dataclass(frozen=True)
class Operand:
    """An array cut into blocks. ``block``: elements, none for a squeezed dim. ``index``: block indices."""

    shape: tuple[int, ...]
    block: tuple[int | None, ...]
    index: Callable[..., tuple[int, ...]]

    def slices(self, point: tuple[int, ...]) -> tuple[slice, ...]:
        """Where the block of one grid point lies; it may stick out at the end.

        Raises:
            Defect: it lies outside altogether.
        """
        found = []
        for dim, size, at in zip(self.shape, self.block, self.index(*point), strict=True):
            start = int(at) * (1 if size is None else size)
            if start < 0 or start >= dim:
                raise Defect(f"block out of range: index {at} at grid point {point}")
            found.append(slice(start, start + (1 if size is None else size)))
        return tuple(found)

    @property
    def window(self) -> tuple[int, ...]:
        """The shape that the kernel sees."""
        return tuple(size for size in self.block if size is not None)


def fetch(array: Tainted, operand: Operand, where: tuple[slice, ...]) -> Tainted:
    """A block as the kernel sees it: what sticks out is garbage."""
    whole = tuple(s.stop - s.start for s in where)
    block = Tainted.unwritten(whole, array.values.dtype)
    inside = tuple(slice(0, min(s.stop, dim) - s.start) for s, dim in zip(where, operand.shape, strict=True))
    clipped = tuple(slice(s.start, min(s.stop, dim)) for s, dim in zip(where, operand.shape, strict=True))
    block.values[inside] = array.values[clipped]
    block.garbage[inside] = array.garbage[clipped]
    return Tainted(block.values.reshape(operand.window), block.garbage.reshape(operand.window))


def write_back(array: Tainted, operand: Operand, where: tuple[slice, ...], block: Tainted) -> None:
    """A block as the machine writes it: what sticks out is dropped."""
    whole = tuple(s.stop - s.start for s in where)
    inside = tuple(slice(0, min(s.stop, dim) - s.start) for s, dim in zip(where, operand.shape, strict=True))
    clipped = tuple(slice(s.start, min(s.stop, dim)) for s, dim in zip(where, operand.shape, strict=True))
    array.values[clipped] = block.values.reshape(whole)[inside]
    array.garbage[clipped] = block.garbage.reshape(whole)[inside]


@dataclass
class Grid:
    """A launch. ``parallel``: for each axis whether its steps may run in any order or at once."""

    machine: Literal["tpu", "gpu"]
    sizes: tuple[int, ...]
    parallel: tuple[bool, ...]
    written_by: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)

    def points(self) -> Iterator[tuple[int, ...]]:
        """Every grid point in order, the last axis fastest."""
        return itertools.product(*map(range, self.sizes))

    def claim(self, block: tuple[int, ...], point: tuple[int, ...]) -> None:
        """One grid point writes one block.

        Raises:
            Defect: another one that may run at the same time writes it too.
        """
        first = self.written_by.setdefault(block, point)
        racing = [a != b and free for a, b, free in zip(first, point, self.parallel, strict=True)]
        if any(racing):
            raise Defect(f"race: grid points {first} and {point} both write block {block}")


type Body = Callable[[tuple[int, ...], Sequence[Tainted], Tainted, Sequence[Tainted]], None]


def launch(
    grid: Grid,
    inputs: Sequence[tuple[Array, Operand]],
    output: tuple[Any, Operand],
    body: Body,
    scratch: Sequence[Tainted],
) -> Array:
    """Run a kernel with one result. ``body(point, blocks, result window, scratch)`` changes the last two.

    Raises:
        Defect: whatever goes wrong first, garbage in the result included.
    """
    dtype, out = output
    sources = [(Tainted.clean(array), operand) for array, operand in inputs]
    result = Tainted.unwritten(out.shape, dtype)
    window, at = Tainted.unwritten(out.window, dtype), None
    for point in grid.points():
        where = out.slices(point)
        blocks = [fetch(array, operand, operand.slices(point)) for array, operand in sources]
        grid.claim(tuple(s.start for s in where), point)
        if grid.machine == "gpu" and any(s.stop > dim for s, dim in zip(where, out.shape, strict=True)):
            raise Defect(f"past the end: the block at grid point {point} sticks out, and Triton checks no bounds")
        if where != at:
            window, at = _new_window(grid, result, out, where), where
        body(point, blocks, window, scratch)
        write_back(result, out, where, window)
    if result.garbage.any():
        first = tuple(int(i) for i in np.argwhere(result.garbage)[0])
        raise Defect(f"garbage: element {first} of the result was never given a meant value")
    return result.values


def _new_window(grid: Grid, result: Tainted, out: Operand, where: tuple[slice, ...]) -> Tainted:
    if grid.machine == "tpu":
        return Tainted.unwritten(out.window, result.values.dtype)
    return fetch(result, out, where)
