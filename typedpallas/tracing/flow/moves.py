"""Garbage through operations that move elements about: each element of the result is one of an operand's."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from typedpallas.tracing.flow import cells
from typedpallas.tracing.flow.cells import Cells
from typedpallas.tracing.flow.masks import Facts, value


def _broadcast(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    part, shape = parts[0], eqn.outvars[0].aval.shape
    if isinstance(part, int):
        return part
    sizes = [1] * len(shape)
    for axis, size in zip(eqn.params["broadcast_dimensions"], part.shape, strict=True):
        sizes[axis] = size
    return part.reshape(sizes)


def _reshaped(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    part, shape, whole = parts[0], eqn.outvars[0].aval.shape, eqn.invars[0].aval.shape
    if isinstance(part, int):
        return part
    if [size for size in whole if size != 1] == [size for size in shape if size != 1]:
        kept = iter([size for size, extent in zip(part.shape, whole, strict=True) if extent != 1])
        return part.reshape([1 if size == 1 else next(kept) for size in shape])
    return cells.narrow(cells.spread(part, whole).reshape(shape)) if cells.followed(shape) else cells.one(part)


def _transposed(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    return parts[0] if isinstance(parts[0], int) else parts[0].transpose(eqn.params["permutation"])


def _sliced(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    part, params = parts[0], eqn.params
    if isinstance(part, int):
        return part
    steps = params["strides"] or (1,) * part.ndim
    bounds = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
    return cells.slim(cells.part_of(part, [slice(*bound) for bound in bounds]))


def _box(eqn: Any, starts: Sequence[Any], sizes: Sequence[int], facts: Facts) -> tuple[slice, ...] | None:
    """Elements that a slice at traced starts takes; none where those are not known."""
    found = []
    for atom, size, extent in zip(starts, sizes, eqn.invars[0].aval.shape, strict=True):
        start = value(facts.span(atom))
        if start is None:
            return None
        start = min(max(start, 0), extent - size)
        found.append(slice(start, start + size))
    return tuple(found)


def _sliced_at(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    if isinstance(parts[0], int):
        return cells.one(parts[0]) if not any(map(cells.worst, parts[1:])) else cells.unknown(parts)
    box = _box(eqn, eqn.invars[1:], eqn.params["slice_sizes"], facts)
    return cells.one(parts[0]) if box is None else cells.slim(cells.part_of(parts[0], box))


def _updated_at(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    held, new, *_ = parts
    shape = eqn.outvars[0].aval.shape
    box = _box(eqn, eqn.invars[2:], eqn.invars[1].aval.shape, facts)
    if box is None or not cells.followed(shape):
        return cells.unknown(parts)
    codes = np.array(cells.spread(held, shape))
    codes[box] = new
    return cells.narrow(codes)


def _rolled(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    shift = value(facts.span(eqn.invars[1])) if len(eqn.invars) == 2 else None
    if isinstance(parts[0], int) or shift is None or eqn.params.get("stride") is not None:
        return cells.one(parts[0])
    return np.roll(parts[0], shift, eqn.params["axis"])


def _turned(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    return parts[0] if isinstance(parts[0], int) else np.flip(parts[0], eqn.params["dimensions"])


def _padded(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    config, shape = eqn.params["padding_config"], eqn.outvars[0].aval.shape
    if any(low < 0 or high < 0 or inner for low, high, inner in config) or not cells.followed(shape):
        return cells.unknown(parts)
    codes = np.full(shape, cells.one(parts[1]), np.uint8)
    inside = zip(config, eqn.invars[0].aval.shape, strict=True)
    codes[tuple(slice(low, low + size) for (low, _, _), size in inside)] = parts[0]
    return cells.narrow(codes)


def _joined(eqn: Any, parts: Sequence[Cells], facts: Facts) -> Cells:
    if all(isinstance(part, int) for part in parts) and len({*parts}) == 1:
        return parts[0]
    if not cells.followed(eqn.outvars[0].aval.shape):
        return cells.unknown(parts)
    spread = [cells.spread(part, atom.aval.shape) for part, atom in zip(parts, eqn.invars, strict=True)]
    return cells.narrow(np.concatenate(spread, axis=eqn.params["dimension"]))


MOVES: Mapping[str, Callable[[Any, Sequence[Cells], Facts], Cells]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshaped,
    "squeeze": _reshaped,
    "expand_dims": _reshaped,
    "transpose": _transposed,
    "slice": _sliced,
    "dynamic_slice": _sliced_at,
    "dynamic_update_slice": _updated_at,
    "roll": _rolled,
    "rev": _turned,
    "pad": _padded,
    "concatenate": _joined,
}
"""What becomes of the cells, by the name of the primitive."""
