"""Views of whole operands for backends that loop over the sequential axes inside the kernel."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from jax.experimental import pallas as pl

from typedpallas.launching.plan import Plan, Planned

type Places = Mapping[str, Callable[[], Any]]
"""The running step along each grid axis."""


def unravelled(plan: Plan, step: Any) -> dict[str, Callable[[], Any]]:
    """The step along each sequential axis from the step of all of them, the last running fastest."""
    found: dict[str, Callable[[], Any]] = {}
    inner = 1
    for axis in reversed(plan.sequential):
        size = plan.grid[axis]
        outermost = axis == plan.sequential[0]

        def index(inner: int = inner, size: int = size, outermost: bool = outermost) -> Any:
            along = step if inner == 1 else step // inner
            return along if outermost else along % size

        found[axis] = index
        inner *= size
    return found


def slices(planned: Planned, at: Places, axes: Collection[str]) -> tuple[Any, ...] | None:
    """The index that cuts the running block along ``axes`` out of an operand; none if it depends on none of them.

    Dims that other axes squeeze are not in the operand any more.
    """
    if not planned.axes & set(axes):
        return None
    index: list[Any] = []
    for piece in planned.pieces:
        if piece.axis is not None and piece.axis in axes:
            place = at[piece.axis]()
            index.append(place if piece.block is None else pl.ds(place * piece.block, piece.block))
        elif piece.block is not None:
            index.append(slice(None))
    return tuple(index)


def own_slices(plan: Plan, planned: Planned, at: Places) -> tuple[Any, ...]:
    """The index that cuts a block out of a whole operand that has its own index map."""
    spec = planned.slot.spec
    assert spec is not None
    ids = [at[axis]() for axis in plan.grid]
    if spec.offset is not None:
        starts = list(spec.offset(*ids))
    else:
        assert spec.index is not None
        places = spec.index(*ids)
        starts = [
            place if piece.block is None else place * piece.block
            for place, piece in zip(places, planned.pieces, strict=True)
        ]
    return tuple(
        start if piece.block is None else pl.ds(start, piece.block)
        for start, piece in zip(starts, planned.pieces, strict=True)
    )


def view(plan: Plan, planned: Planned, ref: Any, at: Places, axes: Collection[str]) -> Any:
    """The running block along ``axes`` of an operand."""
    index = own_slices(plan, planned, at) if planned.slot.spec is not None else slices(planned, at, axes)
    return ref if index is None else ref.at[index]
