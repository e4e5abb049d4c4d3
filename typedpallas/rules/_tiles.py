"""The tiles in which a TPU core's compiler lays arrays out, and what they ask of a slice. Extents in elements.

Every number here was found by asking libtpu 0.0.48 for the least multiple that it takes, over dtypes, extents, chips.
"""

from collections.abc import Iterator
from typing import Literal

from typedpallas import tpu
from typedpallas.chips import Target, TpuTarget
from typedpallas.events import Known, Slice, SlicePart
from typedpallas.records import record
from typedpallas.rules._blocks import bits

LANES = 128
SUBLANES = 8
_WORD = 32
"""Bits of one lane of a register's row."""
_HIGH = {32: 8, 16: 8, 8: 32, 4: 64}
"""Rows of a tile of arrays that have whole such tiles, by the bits of an element."""
_HIGH_SCRATCH = {**_HIGH, 16: 16}
"""The same for buffers that a kernel makes on a chip of the 7th generation."""
_SCRATCH_GENERATION = 7
_HIGH_OLD = {**_HIGH, 8: 8}
"""The same for any buffer on TPU v2 and v3."""
_OLD_GENERATION = 3
_UNMASKED = {16: 3, 8: 4}
"""The last generation that cannot store part of a word, by the bits of an element."""
_OLD_ROWS = 2
"""How many rows of 128 words an old chip's copies move at a time: 1024 bytes."""

type Fit = Literal["fits", "never", "unknown"]


@record(frozen=True)
class Misfit:
    """What a slice would have to be on one dim: its start, or its size, a multiple of ``need``."""

    axis: int
    """The dim of the memory."""
    what: Literal["start", "size", "integer", "stride", "constant"]
    need: int
    fit: Fit


def packing(width: int) -> int:
    """How many elements of this many bits share a lane of a register's row."""
    return _WORD // width


def tile_rows(rows: int, width: int, *, scratch_of_7: bool = False, old: bool = False) -> int:
    """The rows of a tile of an array with so many rows."""
    high = (_HIGH_OLD if old else _HIGH_SCRATCH if scratch_of_7 else _HIGH)[width]
    if width < _WORD and rows % high == 0:
        return high
    tile = packing(width)
    while tile < min(rows, SUBLANES):
        tile *= 2
    return tile


def widths(event: Slice) -> int | None:
    """Bits of an element, where slices of such elements are understood."""
    width = bits(event.dtype)
    return width if width in _HIGH else None


def possible_tiles(event: Slice, width: int, target: Target | None) -> list[int]:
    """The rows that a tile of the memory can have: one number where its layout is known."""
    rows = event.rows if event.rows is not None else 1
    usual = tile_rows(rows, width, old=is_old(target))
    high = tile_rows(rows, width, scratch_of_7=True)
    if event.scratch:
        if isinstance(target, TpuTarget):
            return [high if target.generation >= _SCRATCH_GENERATION else usual]
        return sorted({usual, high})
    return [usual] if event.fixed else sorted({min(usual, SUBLANES), usual})


def is_old(target: Target | None) -> bool:
    """Whether a chip's copies move whole kilobytes of HBM."""
    return isinstance(target, TpuTarget) and target.generation <= _OLD_GENERATION


def of_masked_store(event: Slice, width: int, target: Target | None) -> Iterator[Misfit]:
    """What a store to an array of one dim would have to be where a chip cannot mask part of a word: whole rows of it.

    Elements of 16 bits on v2 and v3, of 8 bits on v4 too.
    """
    newest = _UNMASKED.get(width)
    if newest is None or not isinstance(target, TpuTarget) or target.generation > newest or len(event.parts) != 1:
        return
    part, unit = event.parts[0], LANES * packing(width)
    if part.squeezed or part.size is None:
        return
    if part.start is not None and part.start % unit:
        yield Misfit(0, "start", unit, "never")
    elif part.size % unit:
        yield Misfit(0, "size", unit, "never")


def of_old_access(event: Slice, width: int) -> Iterator[Misfit]:
    """What a load or store would have to be on TPU v2 and v3, where the smallest tiles are twice as large."""
    if len(event.parts) == 1:
        yield from _start(event.parts[0], 0, _OLD_ROWS * LANES * packing(width))
    elif width < _WORD:  # the smallest tile has two rows of words
        yield from _start(event.parts[-2], len(event.parts) - 2, _OLD_ROWS * packing(width))


def of_access(event: Slice, width: int, tile: int) -> Iterator[Misfit]:
    """What a load or store would have to be: starts that are no constants must be multiples of tiles."""
    lanes = event.parts[-1]
    if len(event.parts) == 1:
        yield from _start(lanes, 0, LANES * packing(width))
        return
    rows, axis = event.parts[-2], len(event.parts) - 2
    wide = lanes.extent > LANES
    one_row = rows.size == 1 and (lanes.size is None or lanes.size > LANES)
    if width != _WORD or (wide and not one_row):
        yield from _start(rows, axis, tile)
    yield from _start(lanes, axis + 1, LANES)


def _start(part: SlicePart, axis: int, need: int) -> Iterator[Misfit]:
    if part.start is None:
        yield from _unless(part.divisible(need), axis, "start", need)


def _unless(known: Known, axis: int, what: Literal["start", "size"], need: int) -> Iterator[Misfit]:
    if known != "yes":
        yield Misfit(axis, what, need, "never" if known == "no" else "unknown")


def of_copy(event: Slice, width: int, tile: int) -> Iterator[Misfit]:
    """What a slice that a copy goes to or from, or that a view makes, would have to be."""
    lanes = event.parts[-1]
    if len(event.parts) == 1:
        yield from _units(lanes, 0, LANES * packing(width))
        return
    rows, axis = event.parts[-2], len(event.parts) - 2
    if rows.squeezed and width < _WORD:
        yield Misfit(axis, "integer", packing(width), "never")
    elif not rows.whole:
        yield from _rows(rows, axis, tile, packing(width), narrow=lanes.extent <= LANES)
    if lanes.squeezed and lanes.extent > 1:
        yield Misfit(axis + 1, "integer", LANES, "never")
    elif not lanes.squeezed:
        yield from _units(lanes, axis + 1, LANES)


def of_old_copy(event: Slice, width: int) -> Iterator[Misfit]:
    """What a slice that a copy goes to or from would have to be on TPU v2 and v3, which move 1024 bytes at a time.

    Those are two rows of 128 words, in any memory, and in HBM they start at an even row. For at most 128 whole words
    in a row the start of a slice of HBM is a constant.
    """
    in_hbm, packed = event.space in (tpu.HBM, tpu.ANY), packing(width)
    if len(event.parts) < 2:
        yield from _old_units(event.parts[0], _OLD_ROWS * LANES * packed, in_hbm)
        return
    rows, lanes, axis = event.parts[-2], event.parts[-1], len(event.parts) - 2
    for at, part in enumerate(event.parts[:-1]):
        if in_hbm and part.start is None and width == _WORD and lanes.extent <= LANES:
            yield Misfit(at, "constant", 1, "never")
            return
    if in_hbm and rows.start is None and width < _WORD and rows.extent >= SUBLANES and not rows.squeezed:
        yield from _unless(rows.divisible(SUBLANES), axis, "start", SUBLANES)
    if rows.squeezed and width == _WORD:
        yield Misfit(axis, "integer", _OLD_ROWS, "never")
    elif not rows.squeezed and rows.size is not None:
        yield from _old_rows(rows, axis, packed, in_hbm, one_tile=LANES in (lanes.size, max(lanes.extent, LANES)))


def _old_units(part: SlicePart, unit: int, in_hbm: bool) -> Iterator[Misfit]:
    """The same for an array of one dim."""
    if part.whole or part.size is None:
        return
    if in_hbm:
        yield from _unless(part.divisible(unit), 0, "start", unit)
    ends = part.start is not None and part.start + part.size == part.extent
    if part.size % unit and not ends:
        yield Misfit(0, "size", unit, "never")


def _old_rows(rows: SlicePart, axis: int, packed: int, in_hbm: bool, *, one_tile: bool) -> Iterator[Misfit]:
    """``one_tile``: whether no more than 128 lanes are taken, so that the next tile does not follow in memory."""
    unit, size = _OLD_ROWS * packed, rows.size or 0
    if size == rows.extent:
        if packed == 1 and one_tile and size % unit:
            yield Misfit(axis, "size", unit, "never")
        elif packed > 1 and rows.start is None and size < SUBLANES:
            yield Misfit(axis, "start", unit, "unknown")  # it can only be 0, and the compiler is not told
        return
    if in_hbm and rows.start is not None and rows.start % unit:
        yield Misfit(axis, "start", unit, "never")
        return
    ends = rows.start is not None and rows.start + size == rows.extent
    if ends and packed > 1 and one_tile:
        return  # it depends on how the array is tiled, which its rows decide
    if ends and rows.start is not None and not one_tile:
        size = -(-rows.extent // unit) * unit - rows.start  # what ends with the array is taken with its padding
    if size % unit:
        yield Misfit(axis, "size", unit, "never")


def is_odd_for_old(shape: tuple[int | None, ...], width: int) -> bool:
    """Whether a copy of a whole array of this shape is none of whole kilobytes."""
    if len(shape) < 2 or width != _WORD:
        return False
    rows, lanes = shape[-2], shape[-1]
    return rows is not None and lanes is not None and lanes <= LANES and rows % _OLD_ROWS != 0


def of_scalar_copy(event: Slice, width: int, tile: int) -> Iterator[Misfit]:
    """What a slice of an array in scalar memory that a copy goes to or from would have to be."""
    rows, lanes, axis = event.parts[-2], event.parts[-1], len(event.parts) - 2
    if rows.squeezed and width < _WORD:
        yield Misfit(axis, "integer", packing(width), "never")
    elif not rows.whole and not rows.squeezed:
        yield from _words(rows, axis, packing(width))
    if not lanes.squeezed:
        yield from _units(lanes, axis + 1, LANES)


def _units(part: SlicePart, axis: int, unit: int) -> Iterator[Misfit]:
    """Starts and sizes in whole units, but for a slice of all of it, or one that ends with it."""
    if part.whole:
        return
    yield from _unless(part.divisible(unit), axis, "start", unit)
    if part.size is None:
        yield from _sized(part, axis, unit)
        return
    ends = part.start is not None and part.start > 0 and part.start + part.size == part.extent
    if part.size % unit and part.size != part.extent and not ends:
        yield Misfit(axis, "size", unit, "never")


def _rows(part: SlicePart, axis: int, tile: int, packed: int, *, narrow: bool) -> Iterator[Misfit]:
    """Rows in whole tiles, or in part of one; any whole words of them where tiles follow each other in memory."""
    if narrow and part.extent % packed == 0:
        yield from _words(part, axis, packed)
        return
    if part.size is None:
        yield from _unless(part.divisible(tile), axis, "start", tile)
        yield from _sized(part, axis, min(tile, SUBLANES))
        return
    if part.start is not None:
        if not _static_rows(part, part.start, part.size, tile, packed):
            yield _nearest(part, axis, tile, packed)
        return
    needs = list(_moving_rows(part, part.size, tile, packed))
    if any(part.divisible(need) == "yes" for need in needs):
        return
    if not needs:
        yield Misfit(axis, "size", min(tile, SUBLANES), "never")
    else:
        yield from _unless(part.divisible(min(needs)), axis, "start", min(needs))


def _sized(part: SlicePart, axis: int, need: int) -> Iterator[Misfit]:
    """A size that is known only when the kernel runs, in whole units."""
    if part.sized is not None:
        yield from _unless(part.sized(need), axis, "size", need)


def _moving_rows(part: SlicePart, size: int, tile: int, packed: int) -> Iterator[int]:
    """The numbers of which a start that is no constant may be a multiple: one of them has to divide it."""
    if size == part.extent or size % min(tile, SUBLANES) == 0:
        yield tile
    if size % packed == 0 and part.extent <= tile:
        yield packed
    elif size % packed == 0 and tile % size == 0:
        yield size


def _words(part: SlicePart, axis: int, packed: int) -> Iterator[Misfit]:
    yield from _unless(part.divisible(packed), axis, "start", packed)
    if part.size is None:
        yield from _sized(part, axis, packed)
    elif part.size % packed:
        yield Misfit(axis, "size", packed, "never")


def _static_rows(part: SlicePart, start: int, size: int, tile: int, packed: int) -> bool:
    if start + size == part.extent:
        head = -start % tile
        padded = -(-part.extent // tile) * tile - start
        if _takes(start, padded, tile, packed) or (head < size <= 2 * head and _takes(start, 2 * head, tile, packed)):
            # What ends with the array is taken with its padding, which an integer cannot take away again.
            return not part.squeezed or padded == 1
    return _takes(start, size, tile, packed) or size == part.extent


def _takes(start: int, size: int, tile: int, packed: int) -> bool:
    """Whole tiles; part of one tile; or two equal pieces of two tiles."""
    if start % tile == 0 and size % min(tile, SUBLANES) == 0:
        return True
    if start % packed == 0 and size % packed == 0 and start % tile + size <= tile:
        return True
    half = size // 2
    return (
        size % 2 == 0
        and half % packed == 0
        and half > 0
        and tile % half == 0
        and start % half == 0
        and ((start + half) % tile == 0)
    )


def _nearest(part: SlicePart, axis: int, tile: int, packed: int) -> Misfit:
    assert part.start is not None
    step = min(tile, SUBLANES)
    return Misfit(axis, "start" if part.start % tile else "size", tile if part.start % tile else step, "never")
