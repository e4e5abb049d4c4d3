"""What the elements of a buffer or of a value hold: something meant, perhaps garbage, certainly garbage.

Cells are one code for all elements, or an array of codes. They are never changed in place.
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


def join(left: Cells, right: Cells) -> Cells:
    """What holds after one of two paths."""
    if isinstance(left, int) and isinstance(right, int):
        if left == right:
            return left
        return SPOILED if min(left, right) >= SPOILED else MAYBE
    both = np.minimum(left, right)
    return slim(np.where(np.equal(left, right), left, np.where(both >= SPOILED, SPOILED, MAYBE)).astype(np.uint8))


def computed(*parts: Cells) -> Cells:
    """A result to which every part contributes, element by element."""
    worst: Cells = MEANT
    for part in parts:
        both = isinstance(worst, int) and isinstance(part, int)
        worst = max(worst, part) if both else np.maximum(worst, part)
    if isinstance(worst, int):
        return min(worst, SPOILED)
    return slim(np.minimum(worst, SPOILED).astype(np.uint8))


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
    found = np.argwhere(cells >= SPOILED)
    return tuple(int(i) for i in found[0]) if len(found) else None


def equal(left: Cells, right: Cells) -> bool:
    """Whether both say the same."""
    if isinstance(left, int) or isinstance(right, int):
        return isinstance(left, int) and isinstance(right, int) and left == right
    return left is right or bool(np.array_equal(left, right))
