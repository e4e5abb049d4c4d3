"""Copies of a TPU's TensorCore, typed by the spaces between which they exist.

Asked of libtpu 0.0.48.1 for v4, v5e and 7x: every pair of VMEM, SMEM, HBM and ANY compiles; CMEM is refused
everywhere, v4 included. VMEM_SHARED and HOST were not asked for and are let through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

import jax
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


type DeviceId = tuple[int | jax.Array, ...] | Mapping[str | tuple[str, ...], int | jax.Array]
"""A device by its place along each axis of the mesh: for all in order; or by name, where others stay as here."""


class RemoteCopy(Copy, Protocol):
    """A copy to another device. Every device that runs the kernel sends one, and receives one.

    `wait` ends both: what this device sends has left, and what is sent to it has arrived.
    """

    def wait_send(self) -> None:
        """Ends what this device sends: the source may be stored to."""

    def wait_recv(self) -> None:
        """Ends what is sent to this device: its destination holds the data."""


def make_async_remote_copy(
    src: Ref[Copied | Portable, Any, *tuple[Any, ...]],
    dst: Stored[Copied | Portable],
    send_sem: Ref[DMA, Any, *tuple[Any, ...]],
    recv_sem: Ref[DMA, Any, *tuple[Any, ...]],
    device_id: DeviceId,
) -> RemoteCopy:
    """Describes a copy of ``src`` here to ``dst`` on another device.

    ``send_sem`` counts here, ``recv_sem`` there, where the device waits for its own. ``device_id`` names places along
    the mesh's axes, ``{"x": neighbour}``.
    """
    to = dict(device_id) if isinstance(device_id, Mapping) else device_id
    return cast("RemoteCopy", pltpu.make_async_remote_copy(src, dst, send_sem, recv_sem, to))


def async_remote_copy(
    src: Ref[Copied | Portable, Any, *tuple[Any, ...]],
    dst: Stored[Copied | Portable],
    send_sem: Ref[DMA, Any, *tuple[Any, ...]],
    recv_sem: Ref[DMA, Any, *tuple[Any, ...]],
    device_id: DeviceId,
) -> RemoteCopy:
    """As `make_async_remote_copy`, and begins the copy."""
    copied = make_async_remote_copy(src, dst, send_sem, recv_sem, device_id)
    copied.start()
    return copied


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
