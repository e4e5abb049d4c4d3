"""What lies past an array's end: the elements of a block that hold it, and what is said where it gets out."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from typedpallas.events import PaddedValue
from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow import cells
from typedpallas.tracing.flow.cells import Cells
from typedpallas.tracing.flow.claims import Garbage
from typedpallas.tracing.flow.masks import Kind
from typedpallas.tracing.flow.numbers import Number
from typedpallas.tracing.flow.state import Origin
from typedpallas.tracing.grid import values as grid_values
from typedpallas.tracing.walk import KernelCall, Operand


def partial_axes(operand: Operand) -> Iterator[tuple[int, int, int]]:
    """The axes on which a block does not divide its array: axis, block, extent; elements."""
    if operand.space is not None and not operand.space.windowed:
        return
    for axis, (size, extent) in enumerate(zip(operand.block or (), operand.array or (), strict=False)):
        if isinstance(size, int) and size > 1 and isinstance(extent, int) and extent % size:
            yield axis, size, extent


def is_partial(operand: Operand) -> bool:
    """Whether some block of an input reaches past its array's end."""
    return operand.role == "in" and operand.mapping is not None and any(True for _ in partial_axes(operand))


def is_whole(operand: Operand) -> bool:
    """Whether the window of an input is all of its array, but for axes of which it has one element."""
    pairs = zip(operand.block or (), operand.array or (), strict=False)
    return operand.role == "in" and operand.mapping is not None and all(a in ("squeezed", b) for a, b in pairs)


def kind(operand: Operand, on_gpu: bool) -> Kind:
    """What its padding is. ``on_gpu``: on a GPU a zero may well drop it, for it is other numbers of the program.

    Interpret modes fill it with NaN; whole numbers, and the narrowest floats, have none.
    """
    dtype = operand.dtype or ""
    floats = dtype.startswith(("float", "bfloat")) and not dtype.startswith(("float4", "float6"))
    return "nan" if floats and not on_gpu else "padding"


def in_window(operand: Operand, index: Sequence[Number]) -> Cells:
    """The cells of an input's window, whose block has this index; in the shape that the kernel sees."""
    shape = tuple(1 if size == "squeezed" else size for size in operand.block or () if size is not None)
    tails = [(axis, *_tail(size, extent, index[axis])) for axis, size, extent in partial_axes(operand)]
    tails = [(axis, start, code) for axis, start, code in tails if code != cells.MEANT]
    if not tails:
        return cells.MEANT
    whole = tuple(size for size in shape if isinstance(size, int))
    if len(whole) != len(operand.block or ()):
        return cells.MAYBE
    found: Cells = cells.MEANT
    seen = [axis for axis, size in enumerate(operand.block or ()) if size != "squeezed"]
    for axis, start, code in tails:
        along = np.arange(whole[axis]).reshape([-1 if other == axis else 1 for other in seen])
        part = np.where(along < start, cells.MEANT, code).astype(np.uint8)
        found = cells.worse(found, part)
    return found


def _tail(size: int, extent: int, number: Number) -> tuple[int, int]:
    """Where along one axis of a block padding begins, and whether that is certain; elements."""
    if number is None or number[0] < 0 or number[1] >= math.ceil(extent / size):
        return 0, cells.MAYBE
    start = max(extent - number[1] * size, 0)
    if start >= size:
        return 0, cells.MEANT
    return start, cells.UNWRITTEN if number[0] == number[1] else cells.MAYBE


def event(kernel: KernelCall, claim: Garbage, everything: bool, whole: bool | None) -> PaddedValue | None:
    """The event of a claim whose garbage is padding; none where its block cannot be named."""
    origin = claim.origin
    assert origin is not None
    operand = kernel.operands[origin.buffer.number]
    point = tuple(0 if number is None else number[0] for number in origin.ids)
    place = _loaded(operand, origin) if origin.past is not None else _in_block(kernel, operand, origin.element, point)
    if place is None:
        return None
    axis, extent, loaded = place
    return PaddedValue(
        name=operand.name,
        axis=axis,
        extent=extent,
        loaded=loaded,
        by="block" if origin.past is None else "load",
        primitive=None if origin.mixed is None else origin.mixed.primitive.name,
        step=point,
        output=claim.output.name,
        block=tuple(0 if number is None else number[0] for number in claim.block),
        result_element=claim.element,
        everything=everything,
        whole_result=whole,
    )


type _Place = tuple[int, int, tuple[int, int]]
"""An axis of an array, its extent, and the elements that are taken along it."""


def _loaded(operand: Operand, origin: Origin) -> _Place:
    """Where a load goes past the end of a window that is whole."""
    assert origin.past is not None
    axis, first, end = origin.past
    kept = [number for number, size in enumerate(operand.block or ()) if size != "squeezed"]
    return kept[axis], origin.buffer.shape[axis], (first, end)


def _in_block(
    kernel: KernelCall, operand: Operand, element: tuple[int, ...] | None, point: tuple[int, ...]
) -> _Place | None:
    """Where the block of a step reaches past its array's end."""
    axes = list(partial_axes(operand))
    index = _block(kernel, operand, point)
    if not axes or index is None:
        return None
    kept = [axis for axis, size in enumerate(operand.block or ()) if size != "squeezed"]
    past = [
        (axis, size, extent)
        for axis, size, extent in axes
        if element is None or index[axis] * size + element[kept.index(axis)] >= extent
    ]
    axis, size, extent = (past or axes)[0]
    return axis, extent, (index[axis] * size, (index[axis] + 1) * size)


def _block(kernel: KernelCall, operand: Operand, point: tuple[int, ...]) -> tuple[int, ...] | None:
    """The index of an input's block at a step, which is given as the body counts axes."""
    mapping = kernel.eqn.params["grid_mapping"]
    seen = iter(point)
    whole = [0 if axis in mapping.vmapped_dims else next(seen, 0) for axis in range(len(kernel.grid))]
    index_map = jaxapi.open_jaxpr(operand.mapping.index_map_jaxpr)
    hidden: list[Any] = [None] * (len(index_map.invars) - len(whole))
    extents = tuple(extent or 0 for extent in kernel.grid)
    at = grid_values.walked(np.array([whole]), extents)
    found = grid_values.evaluate(index_map, [*(np.asarray([k]) for k in whole), *hidden], at)
    if any(number is None for number in found):
        return None
    return tuple(int(np.reshape(number, -1)[0]) for number in found)  # type: ignore[arg-type]
