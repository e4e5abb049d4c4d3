"""Blocks of an array in HBM, one after the other, each copied while the one before it is worked on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

if TYPE_CHECKING:
    from typedpallas._refs import Ref
    from typedpallas.dtypes import DType
    from typedpallas.tpu import VMEM, Copied


def stream[D: DType](
    source: Ref[Copied, D, *tuple[Any, ...]],
    rows: int,
    body: Callable[[jax.Array, Ref[VMEM, D, *tuple[Any, ...]]], None],
    *,
    buffers: int = 2,
) -> None:
    """Call ``body(i, block)`` for every block of ``rows`` rows of ``source``; ``block`` lies in VMEM.

    The copies, their buffers and their semaphores are made here: block ``i + buffers - 1`` is on its way while block
    ``i`` is worked on, every copy is waited for once, and none is left when it ends. ``block`` may be read until
    ``body`` returns.

    Args:
        source: a ref in HBM, of shape ``(blocks * rows, ...)``.
        rows: rows of one block; on a TPU a multiple of the tile's rows (8 for elements of 32 bits).
        body: is traced once. ``i`` is the block's number, an int32 scalar.
        buffers: blocks that are kept in VMEM at once, at least 2.

    Raises:
        ValueError: ``rows`` does not divide the first dim, or there are too few buffers.
    """
    total, *rest = source.shape
    if rows < 1 or total % rows:
        near = [size for size in range(1, total + 1) if total % size == 0]
        best = min(near, key=lambda size: abs(size - rows))
        raise ValueError(f"stream: expected rows that divide {total}, found {rows}; the nearest that does is {best}")
    if buffers < 2:
        raise ValueError(f"stream: expected at least 2 buffers, found {buffers}")
    blocks = total // rows
    kept = min(buffers, blocks)

    def run(slots: Any, done: Any) -> None:
        def copy(i: Any) -> Any:
            slot = jax.lax.rem(i, kept)
            there = source.at[pl.ds(pl.multiple_of(i * rows, rows), rows)]
            return pltpu.make_async_copy(there, slots.at[slot], done.at[slot])

        for first in range(kept - 1):
            copy(first).start()

        @pl.loop(0, blocks)
        def _(i: jax.Array) -> None:
            @pl.when(i + kept - 1 < blocks)
            def _() -> None:
                copy(i + kept - 1).start()

            copy(i).wait()
            body(i, slots.at[jax.lax.rem(i, kept)])

    pl.run_scoped(run, pltpu.VMEM((kept, rows, *rest), source.dtype), pltpu.SemaphoreType.DMA((kept,)))
