"""What an index selects from a ref: Pallas's rule, over sizes."""

from __future__ import annotations

from typedpallas import solve
from typedpallas.dims import Facts, Size
from typedpallas.events import Shape
from typedpallas.solve import Proved
from typedpallas_mypy.canonical import expanded, in_steps, simplified
from typedpallas_mypy.evaluate import as_size
from typedpallas_mypy.static import AnyInt, Constant, Cut, Group, Static, Window
from typedpallas_mypy.value import Value


class TooManyIndices(Exception):
    """The index is longer than the shape; the argument is its length."""


def selected(shape: Shape | None, index: Static, facts: Facts) -> Shape | None:
    """The shape that ``index`` selects from ``shape``, in elements; none if it can't be said.

    Raises:
        TooManyIndices: there are more indices than dims.
    """
    items = None if shape is None else filled(len(shape), index)
    if shape is None or items is None:
        return None
    kept: list[Size | None] = []
    for size, item in zip(shape, items, strict=True):
        part = _selected_dim(size, item, facts)
        if part is None:
            return None
        kept += part
    return tuple(kept)


def filled(rank: int, index: Static) -> list[Static] | None:
    """One item for each dim, what an ellipsis stands for and what was left out included; none if it can't be said.

    Raises:
        TooManyIndices: there are more indices than dims.
    """
    items = list(index.items) if isinstance(index, Group) and index.kind == "tuple" else [index]
    dots = [i for i, item in enumerate(items) if isinstance(item, Constant) and item.value is ...]
    if len(dots) > 1:
        return None
    missing = rank - (len(items) - len(dots))
    if missing < 0:
        raise TooManyIndices(len(items) - len(dots))
    at = dots[0] if dots else len(items)
    return [*items[:at], *[_ALL] * missing, *items[at + len(dots) :]]


_ALL = Cut(Constant.of(None), Constant.of(None), Constant.of(None))


def _selected_dim(size: Size | None, item: Static, facts: Facts) -> list[Size | None] | None:
    """What one index leaves of one dim: nothing, or one size; none if it may be an array of indices."""
    if isinstance(item, Cut):
        return [_cut(size, item, facts)]
    if isinstance(item, Window):
        return [as_size(item.size)]
    if isinstance(item, Size | AnyInt) or (isinstance(item, Constant) and item.kind is int):
        return []
    return [] if isinstance(item, Value) and item.shape == () else None


def _cut(size: Size | None, cut: Cut, facts: Facts) -> Size | None:
    """The length of a slice; none where the sizes don't tell."""
    if not isinstance(cut.step, Constant) or ((step := cut.step.value) not in (None, 1) and type(step) is not int):
        return None
    if size is None:
        return None
    plain = [part.value for part in (cut.start, cut.stop, cut.step) if isinstance(part, Constant)]
    if size.const is not None and len(plain) == 3:
        return Size.of(len(range(*slice(*plain).indices(size.const))))
    start, stop = _end(cut.start, Size.of(0), size, facts), _end(cut.stop, size, size, facts)
    if start is None or stop is None or not _at_most(start, stop, facts):
        return None
    length = simplified(stop - start, facts)
    return length if step in (None, 1) else length.cdiv(step) if isinstance(step, int) and step > 0 else None


def _end(end: Static, default: Size, size: Size, facts: Facts) -> Size | None:
    """One end of a slice, counted from the start and inside the dim; none where that can't be proved."""
    if isinstance(end, Constant) and end.value is None:
        return default
    place = as_size(end)
    if place is None:
        return None
    if _at_most(place, Size.of(-1), facts):
        place = place + size
    if not _at_most(Size.of(0), place, facts):
        return None
    if _at_most(place, size, facts):
        return place
    return size if _at_most(size, place, facts) else None


def _at_most(left: Size, right: Size, facts: Facts) -> bool:
    """Whether ``left <= right`` is proved."""
    verdict = solve.at_most(expanded(left, facts), expanded(right, facts), in_steps(facts))
    return isinstance(verdict, Proved)
