"""Garbage through a product of matrices, over the axes that are summed and those that stay."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from typedpallas.tracing.flow import cells
from typedpallas.tracing.flow.cells import Array, Cells

type How = Literal["any", "whole rows", "both"]
"""When a sum of products is certainly garbage: if any factor is; if a row of factors is garbage all over; if garbage
meets garbage. What else garbage is in may be garbage, for the other factor may be zero."""


def dot(eqn: Any, parts: Sequence[Cells], how: How) -> Cells:
    """The cells of a `dot_general`."""
    shape = eqn.outvars[0].aval.shape
    if not any(map(cells.worst, parts)):
        return cells.MEANT
    contract, batch = eqn.params["dimension_numbers"]
    operands = [
        _arranged(part, atom.aval.shape, own, over)
        for part, atom, own, over in zip(parts, eqn.invars, batch, contract, strict=True)
    ]
    rows = [_of_row(operand, how) for operand in operands]
    left, right = _aligned(rows[0], rows[1], len(batch[0]))
    if not cells.followed(np.broadcast_shapes(left.shape, right.shape)):
        return cells.MAYBE
    found = np.maximum(left, right)
    if how == "both" and _meet(*operands):
        found = np.full_like(found, cells.SPOILED)
    return cells.as_cells(found, shape)


def _arranged(part: Cells, shape: Sequence[int], batch: Sequence[int], over: Sequence[int]) -> tuple[Array, int]:
    """Codes with the batch's axes first, those summed over last, and how many the latter are."""
    free = [axis for axis in range(len(shape)) if axis not in batch and axis not in over]
    codes = np.asarray(part, np.uint8)
    whole = codes if codes.ndim == len(shape) else np.broadcast_to(codes, [1] * len(shape))
    return whole.transpose([*batch, *free, *over]), len(over)


def _of_row(operand: tuple[Array, int], how: How) -> Array:
    codes, summed = operand
    axes = tuple(range(codes.ndim - summed, codes.ndim))
    most = codes.max(axis=axes)
    certain = most if how == "any" else codes.min(axis=axes) if how == "whole rows" else np.zeros_like(most)
    return np.where(certain >= cells.SPOILED, cells.SPOILED, np.minimum(most, cells.MAYBE)).astype(np.uint8)


def _aligned(left: Array, right: Array, batch: int) -> tuple[Array, Array]:
    """Rows of both, so that they broadcast to the result: batch, the first's own axes, the second's."""
    wide = left.reshape(left.shape + (1,) * (right.ndim - batch))
    return wide, right.reshape(right.shape[:batch] + (1,) * (left.ndim - batch) + right.shape[batch:])


def _meet(left: tuple[Array, int], right: tuple[Array, int]) -> bool:
    """Whether some position that is summed over is garbage in all of both."""
    sure = []
    for codes, summed in (left, right):
        kept = tuple(range(codes.ndim - summed))
        sure.append(codes.min(axis=kept) >= cells.SPOILED)
    return bool((sure[0] & sure[1]).any())
