"""What the elements of a buffer or of a value hold: something meant, perhaps garbage, certainly garbage.

Cells are one code for all elements, or an array of codes, of the rank of what they describe, with 1 along axes on
which they are the same. They are never changed in place.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

type Array = np.ndarray[Any, Any]
type Cells = int | Array

MEANT = 0
MAYBE = 1
SPOILED = 2
"""Computed from garbage."""
UNWRITTEN = 3
"""As it was allocated: nothing was ever stored there."""

MOST = 1 << 20
"""Larger buffers are not followed element by element."""


def slim(cells: Cells) -> Cells:
    """One code where all elements have the same."""
    if isinstance(cells, int):
        return cells
    if cells.size == 0:
        return MEANT
    first = int(cells.flat[0])
    return first if (cells == first).all() else cells


def narrow(cells: Cells) -> Cells:
    """As `slim`, and 1 along each axis on which all elements are the same."""
    found = slim(cells)
    if isinstance(found, int):
        return found
    for axis, size in enumerate(found.shape):
        first = found[(slice(None),) * axis + (slice(0, 1),)]
        if size > 1 and (found == first).all():
            found = first
    return found


def fits(cells: Cells, shape: Sequence[int]) -> bool:
    """Whether these can be the cells of something of a shape."""
    if isinstance(cells, int):
        return True
    return cells.ndim == len(shape) and all(own in (1, size) for own, size in zip(cells.shape, shape, strict=True))


def alike(left: Cells, right: Cells) -> bool:
    """Whether these can be the cells of things of one shape."""
    if isinstance(left, int) or isinstance(right, int):
        return True
    both = zip(left.shape, right.shape, strict=False)
    return left.ndim == right.ndim and all(a == b or 1 in (a, b) for a, b in both)


def part_of(cells: Array, box: Sequence[slice]) -> Array:
    """The codes of a box."""
    return cells[tuple(slice(None) if size == 1 else side for side, size in zip(box, cells.shape, strict=True))]


def _together(*parts: Cells) -> bool:
    """Whether codes for each element of all parts together are not too many."""
    return followed(np.broadcast_shapes(*(part.shape for part in parts if not isinstance(part, int))))


def join(left: Cells, right: Cells) -> Cells:
    """What holds after one of two paths."""
    if isinstance(left, int) and isinstance(right, int):
        if left == right:
            return left
        return SPOILED if min(left, right) >= SPOILED else MAYBE
    if not _together(left, right):
        return unknown((left, right))
    both = np.minimum(left, right)
    return slim(np.where(np.equal(left, right), left, np.where(both >= SPOILED, SPOILED, MAYBE)).astype(np.uint8))


def computed(*parts: Cells) -> Cells:
    """A result to which every part contributes, element by element."""
    worst: Cells = MEANT
    if all(isinstance(part, int) for part in parts):
        return min(max(parts, default=MEANT), SPOILED)
    if not _together(*parts):
        return unknown(parts)
    for part in parts:
        both = isinstance(worst, int) and isinstance(part, int)
        worst = max(worst, part) if both else np.maximum(worst, part)
    if isinstance(worst, int):
        return min(worst, SPOILED)
    return slim(np.minimum(worst, SPOILED).astype(np.uint8))


def worse(left: Cells, right: Cells) -> Cells:
    """The worse of both, element by element."""
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    return slim(np.maximum(left, right).astype(np.uint8)) if _together(left, right) else unknown((left, right))


def doubtful(cells: Cells) -> Cells:
    """A result that garbage may not reach."""
    if isinstance(cells, int):
        return min(cells, MAYBE)
    return slim(np.minimum(cells, MAYBE).astype(np.uint8))


def worst(cells: Cells) -> int:
    """The worst code among the elements."""
    return cells if isinstance(cells, int) else int(cells.max(initial=0))


def least(cells: Cells) -> int:
    """The best code among the elements."""
    return cells if isinstance(cells, int) else int(cells.min(initial=UNWRITTEN))


def share(cells: Cells) -> float:
    """Which part of the elements is certainly garbage."""
    return float(cells >= SPOILED) if isinstance(cells, int) else float((cells >= SPOILED).mean())


def one(cells: Cells) -> Cells:
    """One code for a result whose elements each come from some unknown elements."""
    if isinstance(cells, int):
        return min(cells, SPOILED)
    if least(cells) >= SPOILED:
        return SPOILED
    return MAYBE if worst(cells) else MEANT


def unknown(parts: Sequence[Cells]) -> Cells:
    """What an operation that is not understood makes of these."""
    return MAYBE if any(map(worst, parts)) else MEANT


def as_cells(codes: Array, shape: Sequence[int]) -> Cells:
    """Codes that broadcast to a shape."""
    if codes.size == 1:
        return int(codes.reshape(-1)[0])
    return slim(codes.astype(np.uint8).reshape((1,) * (len(shape) - codes.ndim) + codes.shape))


def spread(cells: Cells, shape: Sequence[int]) -> Array:
    """The codes as an array of a shape to which they broadcast."""
    return np.broadcast_to(np.asarray(cells, np.uint8), tuple(shape))


def followed(shape: Sequence[int]) -> bool:
    """Whether a buffer is small enough to know each element."""
    return math.prod(shape) <= MOST


def first_garbage(cells: Cells, shape: Sequence[int]) -> tuple[int, ...] | None:
    """The first element that certainly holds garbage."""
    if isinstance(cells, int):
        return (0,) * len(shape) if cells >= SPOILED else None
    spoiled = cells >= SPOILED
    first = int(spoiled.argmax())
    return tuple(int(i) for i in np.unravel_index(first, cells.shape)) if spoiled.flat[first] else None


def equal(left: Cells, right: Cells) -> bool:
    """Whether both say the same."""
    if isinstance(left, int) or isinstance(right, int):
        return isinstance(left, int) and isinstance(right, int) and left == right
    return left is right or (alike(left, right) and bool((left == right).all()))
