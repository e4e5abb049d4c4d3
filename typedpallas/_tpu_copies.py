"""Copies of a TPU's TensorCore, typed by the spaces between which they exist.

Asked of libtpu 0.0.48.1 for v4, v5e and 7x: every pair of VMEM, SMEM, HBM and ANY compiles; CMEM is refused
everywhere, v4 included. VMEM_SHARED and HOST were not asked for and are let through.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

from jax.experimental.pallas import tpu as pltpu

if TYPE_CHECKING:
    from typedpallas._refs import Ref, Stored
    from typedpallas.spaces import Portable
    from typedpallas.tpu import DMA, Copied


class Copy(Protocol):
    """A copy under way, or not yet begun."""

    def start(self, priority: int = 0, *, add: bool = False) -> None:
        """Begins it."""

    def wait(self) -> None:
        """Ends it: afterwards the destination holds the data."""


def sync_copy(
    src: Ref[Copied | Portable, Any, *tuple[Any, ...]],
    dst: Stored[Copied | Portable],
    *,
    add: bool = False,
) -> None:
    """Copies and waits. The refs agree on shape and element type; ``add`` adds to what ``dst`` holds."""
    pltpu.sync_copy(src, dst, add=add)


def async_copy(
    src: Ref[Copied | Portable, Any, *tuple[Any, ...]],
    dst: Stored[Copied | Portable],
    sem: Ref[DMA, Any, *tuple[Any, ...]],
    *,
    priority: int = 0,
    add: bool = False,
) -> Copy:
    """Begins a copy that ``sem`` counts; wait for it before the data is used and before the kernel ends."""
    return cast("Copy", pltpu.async_copy(src, dst, sem, priority=priority, add=add))


def make_async_copy(
    src: Ref[Copied | Portable, Any, *tuple[Any, ...]],
    dst: Stored[Copied | Portable],
    sem: Ref[DMA, Any, *tuple[Any, ...]],
) -> Copy:
    """Describes a copy that ``sem`` counts: ``start()`` it, then ``wait()``, perhaps elsewhere in the kernel."""
    return cast("Copy", pltpu.make_async_copy(src, dst, sem))


@contextmanager
def copy(
    src: Ref[Copied | Portable, Any, *tuple[Any, ...]],
    dst: Stored[Copied | Portable],
    sem: Ref[DMA, Any, *tuple[Any, ...]],
    *,
    priority: int = 0,
) -> Iterator[None]:
    """A copy that is under way for the length of a block: ``with tpu.copy(src, dst, sem): ...``.

    It is begun at the block's start and waited for at its end, so that it cannot be forgotten or waited for twice.
    Inside of the block neither ``dst`` may be used nor ``src`` be stored to. The refs agree on shape and type.
    """
    begun = async_copy(src, dst, sem, priority=priority)
    yield
    begun.wait()
