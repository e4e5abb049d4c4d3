"""`tma-box`."""

import math
from collections.abc import Iterator

from typedpallas.chips import GpuTarget
from typedpallas.events import BulkCopy, Context, Event
from typedpallas.rules.base import Example, Finding, Rule

_MOST, _MOST_DIMS = 256, 5
_BITS = 128
"""What the copy engine moves at least: 16 bytes."""
_WIDEST = 1024
"""Bits of the widest tile that the compiler chooses by itself."""
_ROWS = 8
"""Rows of such a tile."""

_MODULE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

ARGS = (jax.ShapeDtypeStruct((512, 64), jnp.float32),)

def kernel(x, o, tile, arrived):
{body}

def run(x):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((512, 64), jnp.float32),
        scratch_types=[plgpu.SMEM((512, 64), jnp.float32), plgpu.Barrier()],
    )(x)

def reference(x):
    return x
"""
_WHOLE = """    plgpu.copy_gmem_to_smem(x, tile, arrived)
    plgpu.barrier_wait(arrived)
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(tile, o)
    plgpu.wait_smem_to_gmem(0)"""
_PARTS = """    for start in (0, 256):
        rows = pl.ds(start, 256)
        plgpu.copy_gmem_to_smem(x.at[rows], tile.at[rows], arrived)
        plgpu.barrier_wait(arrived)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(tile.at[rows], o.at[rows])
    plgpu.wait_smem_to_gmem(0)"""


class TmaBox(Rule):
    """A copy between global and shared memory that the copy engine (TMA) cannot do in one piece.

    It moves a box of at most 5 dims and at most 256 elements along each, a multiple of 16 bytes along the last, from
    an array whose rows are a multiple of 16 bytes apart; an integer does not take the last dim away. A tiling of the
    buffer splits two dims in four: it shortens the box and adds to its dims; dims of one element and dims that are
    indexed away count little.

    Machines: GPU (Mosaic GPU) from compute capability 9.0 on. Source: its lowering, asked over shapes, boxes, element
    types and tilings on h100; CUDA's limits of a tensor map.
    """

    slug = "tma-box"
    judges = (BulkCopy,)
    message = "`{name}` cannot be copied in one piece: expected {expected}, found {found}"
    example = Example(bad=_MODULE.format(body=_WHOLE), good=_MODULE.format(body=_PARTS), targets=("h100",))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, BulkCopy)
        chip = context.target
        if chip is not None and not (isinstance(chip, GpuTarget) and chip.capability >= (9, 0)):
            return
        yield from self._strides(event)
        yield from self._last(event)
        yield from self._long(event)

    def _strides(self, event: BulkCopy) -> Iterator[Finding]:
        row = event.array[-1] if len(event.array) > 1 else None
        if row is None or row * event.bits % _BITS == 0:
            return
        step = _BITS // math.gcd(event.bits, _BITS)
        yield self.refuted(
            name=event.name,
            expected=f"rows a multiple of {_BITS // 8} bytes apart",
            found=f"{row} elements of {event.bits} bits, {row * event.bits / 8:g} bytes",
            help=f"pad the array's last dim to a multiple of {step}: {-(-row // step) * step}",
        )

    def _last(self, event: BulkCopy) -> Iterator[Finding]:
        kept = [size for size, gone in zip(event.box, event.squeezed, strict=True) if not gone]
        if kept and event.squeezed[-1] and (event.array[-1] or 1) > 1:
            yield self.refuted(
                name=event.name,
                expected="elements that are next to each other",
                found=f"elements {event.array[-1]} apart, as an integer takes the last dim away",
                help="slice the last dim, or transpose the array before the kernel",
            )
            return
        last = kept[-1] if kept else None
        if last is None or last * event.bits % _BITS == 0 or self._alone(event):
            return
        step = _BITS // math.gcd(event.bits, _BITS)
        yield self.refuted(
            name=event.name,
            expected=f"a last dim of a multiple of {_BITS // 8} bytes",
            found=f"{last} elements of {event.bits} bits, {last * event.bits / 8:g} bytes",
            help=f"copy a multiple of {step} elements along the last dim: {-(-last // step) * step}",
        )

    def _alone(self, event: BulkCopy) -> bool:
        """Whether the last dim is no part of the box: the array has one element along it."""
        return bool(event.array) and event.array[-1] == 1

    def _long(self, event: BulkCopy) -> Iterator[Finding]:
        dims = _box(event, event.tile)
        if dims is None:
            return
        problem = _problem(dims)
        if problem is None:
            return
        certain = event.tiling in ("given", "none") or _problem(_tiled(event)) is not None
        if not certain and event.tiling == "inferred":
            return
        make = self.refuted if certain else self.open
        expected, found = problem
        yield make(
            name=event.name,
            expected=expected,
            found=found,
            help="copy it in parts (`.at[pl.ds(...)]` on both sides), or tile the buffer: "
            "`transforms=(plgpu.TilingTransform((8, ...)), plgpu.SwizzleTransform(...))`",
        )


def _box(event: BulkCopy, tile: tuple[int, ...] | None) -> tuple[list[int], int] | None:
    """The box's own dims, those of one element left out, and how many dims were indexed away; none where unknown."""
    kept, gone = [], 0
    for size, whole, squeezed in zip(event.box, event.array, event.squeezed, strict=True):
        if squeezed:
            gone += whole != 1
        elif size is None or whole is None:
            return None
        else:
            kept.append((size, whole))
    for_tile = kept[len(kept) - len(tile) :] if tile else []
    outer = kept[: len(kept) - len(for_tile)]
    if tile and (len(tile) > len(kept) or any(size % part for (size, _), part in zip(for_tile, tile, strict=True))):
        return None
    counts = [(size // part, whole // part) for (size, whole), part in zip(for_tile, tile or (), strict=True)]
    inside = [(part, part) for part in tile or ()]
    dims = [size for size, whole in [*outer, *counts, *inside] if (size, whole) != (1, 1)]
    return dims, gone


def _tiled(event: BulkCopy) -> tuple[list[int], int]:
    """The box under the largest tile that the compiler may choose: what is too much then is too much anyhow."""
    bits = event.bits
    tiles = [(_ROWS, width // bits) for width in (_WIDEST, _WIDEST // 2, _WIDEST // 4) if width >= bits]
    found = [box for tile in tiles if (box := _box(event, tile)) is not None]
    plain = _box(event, None) or ([], 0)
    return next((box for box in [*found, plain] if _problem(box) is None), (found or [plain])[0])


def _problem(box: tuple[list[int], int] | None) -> tuple[str, str] | None:
    """What a box may be and what it is; none if it is fine."""
    if box is None:
        return None
    dims, gone = box
    written = " x ".join(map(str, dims))
    if len(dims) + bool(gone) > _MOST_DIMS:
        extra = f" and {gone} that are indexed away" if gone else ""
        return f"at most {_MOST_DIMS} dims", f"{len(dims)} ({written}){extra}"
    if any(dim > _MOST for dim in dims):
        return f"at most {_MOST} elements along each dim", f"a box of {written}"
    return None
