"""`swizzle-mismatch`."""

from collections.abc import Iterator

from typedpallas import gpu
from typedpallas.chips import GpuTarget
from typedpallas.events import BufferLayout, BulkCopy, Context, Event, MatrixOperand, MatrixProduct
from typedpallas.rules import _products, _tiled_copies
from typedpallas.rules.base import Example, Finding, Rule


def _transforms(tile: int, swizzle: int) -> str:
    return f"plgpu.TilingTransform((8, {tile})), plgpu.SwizzleTransform({swizzle})"


class SwizzleMismatch(Rule):
    """A buffer's tiling or swizzle fits neither its shape and element type nor what reads it.

    A swizzle of 32, 64 or 128 bytes needs rows of exactly as many bytes, and a tiling has to divide the buffer. The
    matrix unit reads tiles of 8 rows by one swizzle; on Hopper both operands of a product have the same swizzle, on
    Blackwell each its own. A buffer without transforms gets the right ones from the compiler, if there are any.

    Copies move whole tiles: they start, in each dim that the tile cuts, where the compiler proves a multiple of the
    tile, and whole tiles cover the array. It multiplies, adds and follows `jnp.minimum`, `jnp.maximum`, `jnp.where`
    and remainders, but neither shifts nor quotients nor what a loop carries; `pl.multiple_of` tells it the rest.

    Machines: GPU (Mosaic GPU). Source: its tracing, which fails with an assertion without words where a tiling does
    not divide, and its lowering, which fails to infer layouts; asked over tilings, swizzles, starts and extents on
    h100 and b200.
    """

    slug = "swizzle-mismatch"
    judges = (MatrixProduct, BufferLayout, BulkCopy)
    message = "the layout of `{name}` does not fit {what}: expected {expected}, found {found}"
    example = Example(
        bad=_products.module(n=48, transforms=_transforms(64, 128)),
        good=_products.module(n=48, transforms=_transforms(16, 32)),
        targets=("h100",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, BufferLayout):
            yield from self._buffer(event)
        elif isinstance(event, BulkCopy):
            yield from self._copy(event, context)
        elif isinstance(event, MatrixProduct) and _products.judged(event, context):
            wrong = [*self._tile(event.a, event.instruction), *self._tile(event.b, event.instruction)]
            yield from wrong
            if not wrong and event.instruction == "wgmma":
                yield from self._alike(event.a, event.b)

    def _buffer(self, event: BufferLayout) -> Iterator[Finding]:
        size = _products.item_bytes(event.dtype)
        name = f"{event.dtype}{list(event.shape)}"
        tile = event.tile or ()
        last = event.shape[len(event.shape) - len(tile) :]
        if len(tile) > len(event.shape) or any(dim % part for dim, part in zip(last, tile, strict=True)):
            yield self.refuted(
                name=name,
                what="its shape",
                expected="a tile that divides it",
                found=f"{tile}",
                help="use another tile, or leave `transforms` out: the compiler chooses them",
            )
            return
        row = (tile or event.shape)[-1:]
        if event.swizzle is None or size is None or not row or row[0] * size == event.swizzle:
            return
        yield self.refuted(
            name=name,
            what=f"a swizzle of {event.swizzle} bytes",
            expected=f"rows of {event.swizzle // size} elements of `{event.dtype}`",
            found=f"rows of {row[0]} ({row[0] * size} bytes)",
            help=f"tile it by (8, {event.swizzle // size}), or leave `transforms` out: the compiler chooses them",
        )

    def _copy(self, event: BulkCopy, context: Context) -> Iterator[Finding]:
        chip = context.target
        if chip is not None and not (isinstance(chip, GpuTarget) and chip.capability >= (9, 0)):
            return
        for misfit in _tiled_copies.misfits(event):
            yield self.refuted(
                blame=misfit.blame,
                name=event.shared,
                what=f"`{event.name}`, {'to' if event.outward else 'from'} which it is copied",
                expected=misfit.expected,
                found=misfit.found,
                witness=misfit.witness,
                help=misfit.help,
            )

    def _tile(self, operand: MatrixOperand, instruction: str) -> Iterator[Finding]:
        size = _products.item_bytes(operand.dtype)
        if operand.space is not gpu.SMEM or size is None or (operand.tile is None and operand.swizzle is None):
            return
        wanted = (_products.ROWS, operand.swizzle // size) if operand.swizzle else None
        if operand.tile == wanted and wanted is not None:
            return
        best = operand.swizzle or next((s for s in _products.SWIZZLES if operand.tile == (8, s // size)), 128)
        swizzle = f"a swizzle of {operand.swizzle} bytes" if operand.swizzle else "no swizzle"
        yield self.refuted(
            name=operand.name,
            what=f"`{instruction}`",
            expected=f"tiles of ({_products.ROWS}, {best // size}) and a swizzle of {best} bytes",
            found=f"{f'tiles of {operand.tile}' if operand.tile else 'no tiles'} and {swizzle}",
            help=f"use `transforms=({_transforms(best // size, best)})`, or leave it out",
        )

    def _alike(self, a: MatrixOperand, b: MatrixOperand) -> Iterator[Finding]:
        """One swizzle for both operands: the given ones are the same, and one that is not given can be it."""
        if a.space is not gpu.SMEM or b.space is not gpu.SMEM:
            return
        if a.swizzle and b.swizzle:
            if a.swizzle != b.swizzle:
                yield self._other(b, f"`{a.name}`, which the same product reads", a.swizzle, f"{b.swizzle} bytes")
            return
        given, other = (a, b) if a.swizzle else (b, a)
        size, (_, minor) = _products.item_bytes(other.dtype), _products.stored(other)
        if given.swizzle is None or size is None or minor is None or minor * size % given.swizzle == 0:
            return
        found = f"a swizzle of {given.swizzle}, and rows of {minor * size} bytes in `{other.name}`"
        best = next((s for s in _products.SWIZZLES if minor * size % s == 0), None)
        if best is not None:
            yield self._other(given, f"`{other.name}`, which the same product reads", best, found)

    def _other(self, operand: MatrixOperand, what: str, swizzle: int, found: str) -> Finding:
        size = _products.item_bytes(operand.dtype) or 1
        return self.refuted(
            name=operand.name,
            what=what,
            expected=f"a swizzle of {swizzle} bytes for both",
            found=found,
            help=f"use `transforms=({_transforms(swizzle // size, swizzle)})` for both buffers, or leave it out",
        )
