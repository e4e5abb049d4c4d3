"""What the tiles of a buffer in a GPU's shared memory ask of the array that a copy moves to or from them.

Asked of Mosaic GPU's lowering (JAX 0.11.2, h100 and b200) over starts, extents and tilings: it takes whole tiles
only, from starts that it proves to be their multiples ("prove the divisibility of index"), of an array that whole
tiles cover in each dim ("must have size smaller or a multiple of its tiling"); an array smaller than a tile is fine.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from typedpallas.events import BulkCopy, SlicePart
from typedpallas.rules import _products


@dataclass(frozen=True)
class Misfit:
    """Why a copy cannot take whole tiles, in the words of a message."""

    expected: str
    found: str
    help: str
    witness: str = ""
    blame: str = ""


def misfits(event: BulkCopy) -> Iterator[Misfit]:
    """What the lowering surely refuses: the array's own extents first, then the first start on each axis."""
    axes = [axis for axis, gone in enumerate(event.squeezed) if not gone]
    tiles = _tiles(event)
    rank = len(tiles[0]) if tiles else 0
    if not event.plain or not rank or len(axes) < rank:
        return
    for place, axis in enumerate(axes[len(axes) - rank :]):
        needs = [tile[place] for tile in tiles]
        found = _extent(event, axis, needs) or _start(event, axis, needs)
        if found is not None:
            yield found


def _tiles(event: BulkCopy) -> list[tuple[int, ...]]:
    """The tile that the kernel gives, or all that the compiler may choose for a product, the smallest last."""
    if event.tiling == "given":
        return [event.tile] if event.tile else []
    if event.tiling == "inferred":
        return [(_products.ROWS, swizzle * 8 // event.bits) for swizzle in _products.SWIZZLES]
    return []


def _extent(event: BulkCopy, axis: int, needs: list[int]) -> Misfit | None:
    whole, box = event.array[axis], event.box[axis]
    if whole is None or box is None:
        return None
    possible = [need for need in needs if box % need == 0]
    if not possible or any(whole <= need or whole % need == 0 for need in possible):
        return None
    need = possible[-1]
    return Misfit(
        expected=f"dim {axis} of the array to be a multiple of the tile's {need}",
        found=_cut(whole, need),
        help=f"pad the array to {-(-whole // need) * need}, or use a tile that divides it",
    )


def _start(event: BulkCopy, axis: int, needs: list[int]) -> Misfit | None:
    need, box = needs[-1], event.box[axis]
    if box is None or box % need or any(other % need for other in needs):
        return None
    for parts in event.ways:
        if axis < len(parts) and parts[axis].divisible(need) == "no":
            return _misfit(axis, parts[axis], need)
    return None


def _misfit(axis: int, part: SlicePart, need: int) -> Misfit:
    step = None if part.start is not None else part.breaks(need)
    at = "" if step is None else ", ".join(f"{name} = {value}" for name, value in step.at.items())
    return Misfit(
        expected=f"a start on axis {axis} that is provably a multiple of the tile's {need}",
        found=_found(part, need, step is not None),
        help=_help(part, need, step is not None),
        witness=f"at {at} it starts at {_cut(step.start, need)}" if step and at else "",
        blame="index",
    )


def _found(part: SlicePart, need: int, broken: bool) -> str:
    if part.start is not None:
        return f"start {part.start}"
    if part.multiple == 0:
        return "a start that is always 0 in a way that the compiler does not see"
    if part.multiple % need == 0 and not broken:
        return f"a start that is a multiple of {part.multiple} in a way that the compiler does not see"
    if part.multiple > 1:
        return f"a start that is only known to be a multiple of {part.multiple}"
    return "a start that may be any number"


def _cut(number: int, need: int) -> str:
    return f"{number} = {number // need}*{need} + {number % need}"


def _help(part: SlicePart, need: int, broken: bool) -> str:
    if part.start is not None:
        down = part.start // need * need
        ends = [start for start in (down, down + need) if start + (part.size or 1) <= part.extent]
        return f"start at {' or '.join(map(str, ends)) or 0}"
    if part.multiple % need == 0 and not broken:
        return f"wrap the start in `pl.multiple_of(start, {need})`, or write it as a product with {need}"
    return f"step by a multiple of {need}, or promise it with `pl.multiple_of(start, {need})` if it always is one"
