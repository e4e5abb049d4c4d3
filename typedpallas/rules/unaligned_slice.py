"""`unaligned-slice`."""

from collections.abc import Callable, Iterator

from typedpallas import tpu
from typedpallas.events import Context, Copied, Event, Slice, SlicePart
from typedpallas.rules import _blocks, _tiles
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[pl.ds(pl.program_id(0) * {step}, 16), :]
"""
_CALL = """pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((64, 256), jnp.float32),
        grid=(4,),
        in_specs=[pl.BlockSpec((64, 256), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((16, 256), lambda i: (i, 0)),
    )(x)"""


def _example(step: int) -> str:
    return module(
        kernel=_KERNEL.format(step=step),
        call=_CALL,
        reference=f"jnp.concatenate([x[i * {step} : i * {step} + 16] for i in range(4)])",
        args=(array("64, 256"),),
    )


_KILOBYTES = "this chip's copies move whole kilobytes, which are two rows of 128 words"

_UNMASKED = "this chip stores no part of a row of 128 words of an array of one dim: it has no mask for it"


class UnalignedSlice(Rule):
    """A slice that cuts the tiles in which a TPU keeps an array.

    The last two dims are kept in tiles of 128 lanes and, for elements of 32, 16, 8 and 4 bits, of 8, 8, 32 and 64
    rows (of fewer rows where the array has no whole tiles of that many). Loads and stores may start at any constant;
    a start that is known only when the kernel runs must be provably a multiple of the tile, except for rows of 32-bit
    elements of arrays at most 128 lanes wide, or a single row of more than 128 lanes. Copies and `ref.at` views take
    whole tiles, part of one tile in whole 32-bit words, or, up to 128 lanes, any whole words. Arrays of one dim are
    cut in units of 128 words.

    Copies from or to scalar memory take whole 32-bit words of rows, and lanes in whole 128s. A size that is known
    only when the kernel runs must be provably a multiple of 8 rows (up to 128 lanes, of whole words), or of 128
    lanes.

    On TPU v2 and v3 copies move whole kilobytes, two rows of 128 words: slices take an even number of rows of 32-bit
    words, in HBM from an even one on, or all rows of more than 128 lanes, and an integer takes no row away. Where the
    elements have 32 bits and the array has at most 128 lanes, it has an even number of rows, and a slice of it in HBM
    starts at a constant; of narrower ones at a multiple of 8 rows, where it is none. Tiles of 8-bit elements have 8
    rows there. Arrays of one dim are cut in units of 256 words.
    Loads and stores of arrays of one dim start at multiples of as many where the start is no constant.
    Stores to arrays of one dim take whole rows of 128 words where the elements have 16 bits (v2, v3) or 8 (v4, too).

    Mosaic proves less than is true: it multiplies, adds and follows `jnp.minimum`, `jnp.where` and remainders, but
    neither maxima nor bit operations, nor what a loop carries or a branch works out; `pl.multiple_of` tells it the
    rest. A `tp.launch` tells it by itself wherever the trace proves it whatever the grid is.

    mypy judges slices of kernels whose launch is in the same file, on the configured targets: the start as a term
    over program ids, turns of loops and loaded numbers, for all sizes that the kernel's dims may have. What is
    refuted for some sizes only is open there.

    Machines: TPU, every chip from v2 to 7x (7x keeps 16-bit scratch in tiles of 16 rows). Source: libtpu 0.0.48
    (E2003, "cannot statically prove", "must be aligned to tiles"), asked for the least multiple that it takes over
    dtypes, extents, starts, sizes and forms of expressions.
    """

    slug = "unaligned-slice"
    judges = (Slice, Copied)
    message = "slice of `{name}` is unaligned on axis {axis}: expected {expected}, found {found}"
    example = Example(bad=_example(4), good=_example(16), targets=("tpu-v5e", "tpu-7x"))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        old = _tiles.is_old(context.target)
        if isinstance(event, Copied):
            yield from self._of_whole(event) if old else ()
            return
        assert isinstance(event, Slice)
        width = _tiles.widths(event)
        if context.machine != "tpu" or width is None or not event.laid_out or not event.parts:
            return
        if any(part.stride != 1 for part in event.parts) or not _is_tiled(event):
            return
        if event.op == "copy" and old:
            for misfit in _tiles.of_old_copy(event, width):
                yield self._finding_of(event, misfit, misfit.fit == "never", _KILOBYTES)
                return
        if event.op == "store":
            for misfit in _tiles.of_masked_store(event, width, context.target):
                yield self._finding_of(event, misfit, certain=True, why=_UNMASKED)
                return
        if event.op in ("load", "store") and old:
            for misfit in _tiles.of_old_access(event, width):
                yield self._finding_of(event, misfit, misfit.fit == "never")
                return
        look = _look(event)
        found = [list(look(event, width, tile)) for tile in _tiles.possible_tiles(event, width, context.target)]
        for misfit in found[-1]:
            certain = all(any(m.axis == misfit.axis and m.fit == "never" for m in other) for other in found)
            yield self._finding_of(event, misfit, certain and misfit.fit == "never")

    def _of_whole(self, event: Copied) -> Iterator[Finding]:
        """A copy of whole arrays on an old chip."""
        shape = tuple(None if size is None else size.const for size in event.source.shape or ())
        width = _blocks.bits(event.source.dtype)
        if event.whole and width is not None and _tiles.is_odd_for_old(shape, width):
            yield self.refuted(
                name=event.source.name,
                axis=len(shape) - 2,
                expected="an even number of rows",
                found=f"{shape[-2]} rows of at most {_tiles.LANES} words",
                notes=(_KILOBYTES,),
                help="copy an array with an even number of rows, of one dim, or of more than 128 lanes",
            )

    def _finding_of(self, event: Slice, misfit: _tiles.Misfit, certain: bool, why: str = "") -> Finding:
        part = event.parts[misfit.axis]
        step = None if part.start is not None else part.breaks(misfit.need)
        at = "" if step is None else ", ".join(f"{name} = {value}" for name, value in step.at.items())
        make = self.refuted if certain else self.open
        return make(
            blame="index",
            name=event.name,
            axis=misfit.axis if part.axis is None else part.axis,
            expected=_expected(misfit),
            found=_found(part, misfit, step is not None),
            witness=f"at {at} it starts at {step.start} = {_cut(step.start, misfit.need)}" if step and at else "",
            notes=(why or _why(event, misfit),),
            help=_help(part, misfit),
        )


type _Look = Callable[[Slice, int, int], Iterator[_tiles.Misfit]]


def _look(event: Slice) -> _Look:
    """What asks for tiles: loads and stores, copies of vectors, copies of scalars."""
    if event.op in ("load", "store"):
        return _tiles.of_access
    in_words = event.space is tpu.SMEM and len(event.parts) > 1
    return _tiles.of_scalar_copy if in_words else _tiles.of_copy


def _is_tiled(event: Slice) -> bool:
    if event.op in ("load", "store"):
        return event.space is tpu.VMEM
    if event.space is tpu.SMEM:
        return event.op == "copy"
    return event.op in ("copy", "view") and event.space in (tpu.VMEM, tpu.HBM, tpu.ANY)


def _expected(misfit: _tiles.Misfit) -> str:
    if misfit.what == "constant":
        return "a start that is a constant, on this chip"
    if misfit.what == "integer":
        return "a slice, as an integer cannot take this axis away"
    return f"a {misfit.what} that is a multiple of {misfit.need}"


def _found(part: SlicePart, misfit: _tiles.Misfit, broken: bool) -> str:
    if misfit.what == "constant":
        return "a start that is known only when the kernel runs"
    if misfit.what == "integer":
        return "an integer"
    if misfit.what == "size":
        return "a size that is known only when the kernel runs" if part.size is None else f"size {part.size}"
    if part.start is not None:
        return f"start {part.start}"
    if part.multiple % misfit.need == 0 and not broken:
        always = f"a multiple of {part.multiple}" if part.multiple else "always 0"
        return f"a start that is {always} in a way that the compiler does not see"
    if part.multiple > 1:
        return f"a start that is only known to be a multiple of {part.multiple}"
    return "a start that may be any number"


def _cut(start: int, need: int) -> str:
    return f"{start // need}*{need} + {start % need}"


def _why(event: Slice, misfit: _tiles.Misfit) -> str:
    if misfit.axis == len(event.parts) - 1:
        return f"a register of a TPU core has {_tiles.LANES} lanes, and memory is cut accordingly"
    return f"{event.dtype} is kept in tiles of rows, so that rows are reached only from a tile's edge"


def _help(part: SlicePart, misfit: _tiles.Misfit) -> str:
    need = misfit.need
    if misfit.what == "constant":
        return "give the array more than 128 lanes or 16-bit elements, or write the loop out with constant starts"
    if misfit.what == "integer":
        return "copy the axis whole and index the copy, or move this axis before the last two"
    if misfit.what == "size" and part.size is None:
        return f"promise it with `pl.multiple_of(size, {need})`, and round it up to one where it is none"
    if misfit.what == "size":
        assert part.size is not None
        down, up = part.size // need * need, -(-part.size // need) * need
        sizes = [size for size in (down, up) if 0 < size <= part.extent]
        if not sizes:
            return f"give it {up} elements, a multiple of {need}"
        return f"use a size of {' or '.join(map(str, sizes)) or part.extent}"
    if part.start is not None:
        down = part.start // need * need
        ends = [start for start in (down, down + need) if start + (part.size or 1) <= part.extent]
        return f"start at {' or '.join(map(str, ends)) or 0}"
    if part.multiple % need == 0:
        return f"wrap the start in `pl.multiple_of(start, {need})`"
    return f"step by a multiple of {need}, or promise it with `pl.multiple_of(start, {need})` if it always is one"
