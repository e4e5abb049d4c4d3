"""Which elements of a buffer an access or a copy takes: a box, where the index is one."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow import cells
from typedpallas.tracing.flow.cells import Cells
from typedpallas.tracing.flow.numbers import Number, exact, hull, literal


@dataclass(frozen=True)
class Side:
    """The elements along one axis of the buffer: ``size`` from ``start``, each ``stride`` apart."""

    start: Number
    size: int
    stride: int = 1


@dataclass(frozen=True)
class Region:
    """A box in a buffer. ``seen``: the buffer's axes that the view still has, in the view's order."""

    sides: tuple[Side, ...]
    seen: tuple[int, ...]

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """The view's shape."""
        return tuple(self.sides[axis].size for axis in self.seen)

    @functools.cached_property
    def count(self) -> int:
        """Elements in it."""
        return math.prod(side.size for side in self.sides)

    @functools.cached_property
    def slices(self) -> tuple[slice, ...] | None:
        """The box in numpy's terms; none where a start is not known."""
        found = []
        for side in self.sides:
            start = exact(side.start)
            if start is None or start < 0:
                return None
            found.append(slice(start, start + (side.size - 1) * side.stride + 1, side.stride))
        return tuple(found)

    def join(self, other: "Region") -> "Region | None":
        """A box of the same shape that is either of two; none where their shapes differ."""
        sides = list(zip(self.sides, other.sides, strict=True))
        if self.seen != other.seen or any((a.size, a.stride) != (b.size, b.stride) for a, b in sides):
            return None
        return Region(tuple(Side(hull(a.start, b.start), a.size, a.stride) for a, b in sides), self.seen)

    def around(self, shape: Sequence[int]) -> tuple[slice, ...] | None:
        """All elements that it may take, where its starts are known to lie between two numbers within the buffer."""
        found = []
        for side, extent in zip(self.sides, shape, strict=True):
            if side.start is None or side.start[0] < 0:
                return None
            end = side.start[1] + (side.size - 1) * side.stride + 1
            if end > extent:
                return None
            found.append(slice(side.start[0], end))
        return tuple(found)

    def is_all(self, shape: Sequence[int]) -> bool:
        """Whether it is the whole buffer."""
        return all(
            exact(side.start) == 0 and side.stride == 1 and side.size == extent
            for side, extent in zip(self.sides, shape, strict=True)
        )

    def inside(self, shape: Sequence[int]) -> bool:
        """Whether it is known and lies within the buffer."""
        slices = self.slices
        return slices is not None and all(part.stop <= extent for part, extent in zip(slices, shape, strict=True))

    def clipped(self, shape: Sequence[int]) -> "tuple[Region, tuple[slice, ...]] | None":
        """The part that lies within the buffer, and what part of the view that is; none where that is not known."""
        sides = []
        for side, extent in zip(self.sides, shape, strict=True):
            start = exact(side.start)
            if start is None or not 0 <= start < extent or side.stride != 1:
                return None
            sides.append(Side(side.start, min(side.size, extent - start)))
        return Region(tuple(sides), self.seen), tuple(slice(0, sides[axis].size) for axis in self.seen)


def whole(shape: Sequence[int]) -> Region:
    """All of a buffer."""
    return Region(tuple(Side((0, 0), extent) for extent in shape), tuple(range(len(shape))))


def resolve(transforms: Sequence[Any], shape: Sequence[int], number: Callable[[Any], Number]) -> Region | None:
    """The box that a view takes; none where it is no box, or its size is not known."""
    region = whole(shape)
    for transform in transforms:
        if hasattr(transform, "indices"):
            further = _indexed(region, transform.indices, number)
        elif hasattr(transform, "permutation"):
            further = Region(region.sides, tuple(region.seen[axis] for axis in transform.permutation))
        else:
            return None
        if further is None:
            return None
        region = further
    return region


class Views:
    """The views of one access, with the boxes that they take, by the numbers in them. ``asked``: the variables."""

    def __init__(self, transforms: Sequence[Any], shape: Sequence[int]) -> None:
        self.transforms, self._shape = transforms, shape
        self._known: dict[tuple[Number, ...], Region | None] = {}
        asked: list[Any] = []

        def ask(part: Any) -> Number:
            if jaxapi.is_variable(part):
                asked.append(part)
            return None

        resolve(transforms, shape, ask)
        self.asked = tuple(asked)

    def at(self, values: tuple[Number, ...]) -> Region | None:
        """The box, where the variables stand for these."""
        if values not in self._known:
            following = iter(values)
            self._known[values] = resolve(self.transforms, self._shape, lambda part: _number(part, following))
        return self._known[values]


def _number(part: Any, following: Iterator[Number]) -> Number:
    if jaxapi.is_variable(part):
        return next(following)
    return literal(part.val if jaxapi.is_literal(part) else part)


def _indexed(region: Region, indices: Sequence[Any], number: Callable[[Any], Number]) -> Region | None:
    if len(indices) != len(region.seen):
        return None
    sides, seen = list(region.sides), []
    for axis, index in zip(region.seen, indices, strict=True):
        side = sides[axis]
        if hasattr(index, "start") and hasattr(index, "size"):
            if not isinstance(index.size, int) or not isinstance(index.stride, int):
                return None
            start, size, stride = number(index.start), index.size, index.stride
            seen.append(axis)
        else:
            if not isinstance(index, int | np.integer) and getattr(getattr(index, "aval", None), "shape", None) != ():
                return None
            start, size, stride = number(index), 1, 1
        sides[axis] = Side(_moved(side, start), size, side.stride * stride)
    return Region(tuple(sides), tuple(seen))


def _moved(side: Side, start: Number) -> Number:
    if side.size == 1 and side.stride == 1:
        return side.start
    if start is None or side.start is None:
        return None
    return side.start[0] + start[0] * side.stride, side.start[1] + start[1] * side.stride


def meet(left: Region, right: Region) -> bool:
    """Whether two boxes of one buffer certainly have an element in common."""
    for one, other in zip(left.sides, right.sides, strict=True):
        a, b = exact(one.start), exact(other.start)
        if a is None or b is None or (one.stride != 1 and one.size > 1) or (other.stride != 1 and other.size > 1):
            return False
        if a + one.size <= b or b + other.size <= a:
            return False
    return True


def taken(held: Cells, shape: Sequence[int], region: Region | None) -> Cells:
    """What a load of a region gets, in the view's shape."""
    if isinstance(held, int):
        return held
    if region is None or not region.inside(shape):
        return cells.one(held)
    slices = region.slices
    assert slices is not None
    squeezed = [axis for axis in range(len(shape)) if axis not in region.seen]
    part = cells.part_of(held, slices).squeeze(tuple(squeezed))
    order = [axis - sum(gone < axis for gone in squeezed) for axis in region.seen]
    return cells.slim(part.transpose(order))


def stored(held: Cells, shape: Sequence[int], region: Region | None, value: Cells) -> Cells:
    """What a buffer holds after a store of ``value`` to a region; ``value`` has the view's shape."""
    as_held = isinstance(value, int) or (region is not None and region.seen == tuple(range(len(shape))))
    if region is not None and as_held and region.is_all(shape):
        return value
    if isinstance(held, int) and isinstance(value, int) and held == value:
        return held
    if region is None or not region.inside(shape):
        return _somewhere(held, shape, region, value)
    slices, box = region.slices, _as_stored(value, region)
    assert slices is not None
    old = np.asarray(held, np.uint8).reshape((1,) * len(shape) if isinstance(held, int) else held.shape)
    same = [
        exact(side.start) == 0 and side.size == extent and kept == new == 1
        for side, extent, kept, new in zip(region.sides, shape, old.shape, box.shape, strict=True)
    ]
    sizes = [1 if uniform else extent for uniform, extent in zip(same, shape, strict=True)]
    if not cells.followed(sizes):
        return _somewhere(held, shape, region, value)
    codes = np.array(np.broadcast_to(old, sizes))
    codes[tuple(slice(None) if size == 1 else side for side, size in zip(slices, sizes, strict=True))] = box
    return cells.narrow(codes)


def _as_stored(value: Cells, region: Region) -> cells.Array:
    """The cells of a value that has the view's shape, on the buffer's axes."""
    if isinstance(value, int):
        return np.full((1,) * len(region.sides), value, np.uint8)
    sizes = iter(value.transpose(np.argsort(region.seen)).shape)
    whole = [next(sizes) if axis in region.seen else 1 for axis in range(len(region.sides))]
    return value.transpose(np.argsort(region.seen)).reshape(whole)


def _somewhere(held: Cells, shape: Sequence[int], region: Region | None, value: Cells) -> Cells:
    """A store to unknown elements, perhaps to all of those that the region may take."""
    one = value if isinstance(value, int) else cells.one(value)
    where = None if region is None else region.around(shape)
    if where is None:
        return cells.join(held, one)
    old = (1,) * len(shape) if isinstance(held, int) else held.shape
    whole = [part == slice(0, extent) and size == 1 for part, extent, size in zip(where, shape, old, strict=True)]
    sizes = [1 if uniform else extent for uniform, extent in zip(whole, shape, strict=True)]
    if all(whole) or not cells.followed(sizes):
        return cells.join(held, one)
    codes = np.array(cells.spread(held, sizes))
    box = tuple(slice(None) if uniform else part for uniform, part in zip(whole, where, strict=True))
    codes[box] = cells.spread(cells.join(cells.slim(codes[box]), one), codes[box].shape)
    return cells.narrow(codes)
