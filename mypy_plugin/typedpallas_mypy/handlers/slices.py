"""Loads and stores of refs whose extents are numbers: whether they stay inside.

A view, ``ref.at[...]``, may lead outside where a masked access of it does not (Triton's rows of a power of two).
"""

from __future__ import annotations

from typing import Literal

from typedpallas.events import RefFact, Slice, SlicePart, Step
from typedpallas_mypy.evaluate import as_size
from typedpallas_mypy.index import filled
from typedpallas_mypy.static import Constant, Static, Window


def slice_of(ref: RefFact, index: Static, op: Literal["load", "store"]) -> Slice | None:
    """The index as an event; none where some extent is no number, or nothing about the index is known."""
    extents = None if ref.shape is None else [None if size is None else size.const for size in ref.shape]
    if extents is None or None in extents:
        return None
    parts = [
        _part(axis, extent, item)
        for axis, (extent, item) in enumerate(zip(extents, filled(len(extents), index) or (), strict=False))
        if extent is not None
    ]
    if len(parts) < len(extents) or all(part.outside is None for part in parts):
        return None
    return Slice(name=ref.name, op=op, space=ref.space, dtype=ref.dtype, parts=tuple(parts), laid_out=False)


def _part(axis: int, extent: int, item: Static) -> SlicePart:
    """What one index takes of one dim. Python's own slices are cut at the ends, so they always fit."""
    if isinstance(item, Window):
        start, size = _number(item.start), _number(item.size)
        beyond = start is not None and size is not None and start >= 0 and start + size > extent
        outside = Step(at={}, start=start) if beyond and start is not None else None
        return SlicePart(axis=axis, extent=extent, start=start, size=size, outside=outside)
    place = _number(item)
    if place is None:
        return SlicePart(axis=axis, extent=extent, start=None, size=None)
    outside = Step(at={}, start=place) if place >= extent else None
    return SlicePart(axis=axis, extent=extent, start=place, size=1, squeezed=True, outside=outside)


def _number(item: Static) -> int | None:
    if isinstance(item, Constant) and item.kind is not int:
        return None
    size = as_size(item)
    return None if size is None else size.const
