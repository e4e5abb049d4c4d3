"""Which elements of a buffer in shared or tensor memory an operation takes, where its index is known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from typedpallas.tracing.warpgroups.numbers import Frame, reader

type Box = tuple[tuple[int, int], ...]
"""First and past-the-last element along each axis."""

_WHOLE = frozenset(
    (
        *("UntilingTransform", "UnswizzleRef", "TransposeTransform", "ReshapeTransform", "BitcastTransform"),
        *("CollapseLeadingBatchDimensionsTransform", "ExpandLeadingBatchDimensionsTransform", "IdentityTransform"),
    )
)
"""Transforms by which each element of the view is one of the buffer, and all of them are."""


@dataclass(frozen=True)
class Part:
    """Some elements of a buffer: a box in the coordinates that ``frame`` names; no box means all of them."""

    frame: tuple[str, ...]
    box: Box | None

    @property
    def everything(self) -> bool:
        """Whether it is the whole buffer."""
        return self.box is None and not any(name.startswith("ExtractAliasedRef") for name in self.frame)


@dataclass(frozen=True)
class View:
    """What transforms take of a ref, made ready to be resolved many times. ``exact``: whether that can be done."""

    frame: tuple[str, ...]
    shape: tuple[int, ...]
    """What the first index is into; empty where there is none."""
    indices: tuple[Any, ...]
    exact: bool

    def part(self, frame: Frame) -> Part | None:
        """The elements; none where they are not known."""
        if not self.exact:
            return None
        if not self.indices:
            return Part(self.frame, None)
        sides = [[0, extent] for extent in self.shape]
        seen = list(range(len(sides)))
        for resolve in self.indices:
            found = resolve(sides, seen, frame)
            if found is None:
                return None
            seen = found
        if all(low == 0 and high == extent for (low, high), extent in zip(sides, self.shape, strict=True)):
            return Part(self.frame, None)
        return Part(self.frame, tuple((low, high) for low, high in sides))

    def element(self, frame: Frame, shape: Sequence[int]) -> int | None:
        """The flat number of the one element that is taken out of ``shape``."""
        if not shape:
            return 0
        part = self.part(frame)
        box = None if part is None else part.box
        if box is None:
            return 0 if all(extent == 1 for extent in shape) else None
        if any(high - low != 1 or not 0 <= low < extent for (low, high), extent in zip(box, shape, strict=True)):
            return None
        return int(np.ravel_multi_index([low for low, _ in box], shape))


_UNKNOWN = View((), (), (), False)


def view(transforms: Sequence[Any]) -> View:
    """What ``transforms`` take of a ref; their leaves are variables and constants."""
    frame: list[str] = []
    shape: tuple[int, ...] = ()
    indices: list[Any] = []
    late = False
    for transform in transforms:
        kind = type(transform).__name__
        if not hasattr(transform, "indices"):
            late = late or bool(indices)
            if kind not in _WHOLE and (late or kind != "ExtractAliasedRef"):
                return _UNKNOWN
            if not late:
                frame.append(repr(transform))
            continue
        resolve = _index(transform.indices)
        if resolve is None or late:
            return _UNKNOWN
        if not indices:
            shape = tuple(transform.shape)
        indices.append(resolve)
    exact = all(isinstance(extent, int) for extent in shape)
    return View(tuple(frame), shape, tuple(indices), exact)


def _index(parts: Sequence[Any]) -> Callable[[list[list[int]], list[int], Frame], list[int] | None] | None:
    """Narrows the sides of the axes that are still seen, and says which remain."""
    sides = []
    for part in parts:
        if hasattr(part, "start") and hasattr(part, "size"):
            if not isinstance(part.size, int) or part.stride != 1:
                return None
            sides.append((_number(part.start), part.size, True))
        elif getattr(getattr(part, "aval", None), "shape", ()) == ():
            sides.append((_number(part), 1, False))
        else:
            return None

    def narrow(box: list[list[int]], seen: list[int], frame: Frame) -> list[int] | None:
        if len(seen) != len(sides):
            return None
        kept = []
        for axis, (start, size, keeps) in zip(seen, sides, strict=True):
            first = start(frame)
            if first is None:
                return None
            low = box[axis][0] + first
            box[axis] = [low, low + size]
            if keeps:
                kept.append(axis)
        return kept

    return narrow


def _number(part: Any) -> Callable[[Frame], Any]:
    if isinstance(part, int | np.integer):
        value = int(part)
        return lambda frame: value
    return reader(part) if hasattr(part, "aval") else lambda frame: None


def meet(left: Part, right: Part) -> bool:
    """Whether two parts of one buffer certainly have an element in common."""
    if left.frame != right.frame:
        return left.everything or right.everything
    if left.box is None or right.box is None:
        return True
    if len(left.box) != len(right.box):
        return False
    for (a, b), (c, d) in zip(left.box, right.box, strict=True):  # noqa: SIM110 (this is faster)
        if a >= d or c >= b:
            return False
    return True


def covers(outer: Part, inner: Part) -> bool:
    """Whether all of one part certainly is in another."""
    if outer.frame != inner.frame:
        return outer.everything
    if outer.box is None:
        return True
    if inner.box is None or len(inner.box) != len(outer.box):
        return False
    return all(a <= c and d <= b for (a, b), (c, d) in zip(outer.box, inner.box, strict=True))
