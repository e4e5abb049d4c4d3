"""Values that a loop takes apart, one element for each turn, and those that it puts together."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from typedpallas.tracing.flow import cells
from typedpallas.tracing.flow.state import PLAIN, Bound, Origin


def part(bound: Bound, at: int | None) -> Bound:
    """What a turn gets of a value; ``at`` is the element, none where it is one of several."""
    found = (
        cells.one(bound.cells)
        if isinstance(bound.cells, int) or at is None
        else cells.slim(bound.cells[at if len(bound.cells) > 1 else 0])
    )
    return replace(bound, cells=found, number=None, known=None) if cells.worst(found) else PLAIN


class Stack:
    """One result of a loop: ``variable`` is the whole of it."""

    def __init__(self, variable: Any) -> None:
        self._shape = tuple(variable.aval.shape)
        self._codes = np.zeros(self._shape if math.prod(self._shape) <= cells.MOST else (1,), np.uint8)
        self._origin: Origin | None = None

    def put(self, made: Bound, at: int | None) -> None:
        """What a turn made."""
        if not cells.worst(made.cells):
            return
        self._origin = self._origin or made.origin
        if at is None or self._codes.shape != self._shape:
            self._codes = np.maximum(self._codes, cells.MAYBE)
        else:
            self._codes[at] = cells.computed(made.cells)

    def whole(self) -> Bound:
        """All turns together."""
        found = (
            cells.narrow(self._codes) if self._codes.shape == self._shape else cells.one(cells.doubtful(self._codes))
        )
        return Bound(cells=found, origin=self._origin) if cells.worst(found) else PLAIN
