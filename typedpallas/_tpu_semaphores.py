"""What counts on a TPU's semaphores, typed by their kinds: DMA semaphores count copies, the others signals.

Source: JAX 0.11.2 refuses the other kinds while it traces, in `semaphore_signal` and `semaphore_wait`; it reads all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
from jax.experimental import pallas as pl

if TYPE_CHECKING:
    from typedpallas._refs import Ref
    from typedpallas.tpu import BARRIER, DMA, REGULAR


def semaphore_signal(
    sem: Ref[REGULAR | BARRIER, Any, *tuple[Any, ...]], inc: int | jax.Array = 1, **options: Any
) -> None:
    """Adds ``inc`` to a semaphore, here or on another device. ``options``: those of `pl.semaphore_signal`."""
    pl.semaphore_signal(sem, inc, **options)


def semaphore_wait(
    sem: Ref[REGULAR | BARRIER, Any, *tuple[Any, ...]], value: int | jax.Array = 1, **options: Any
) -> None:
    """Waits for ``value`` and takes it away. ``options``: those of `pl.semaphore_wait`."""
    pl.semaphore_wait(sem, value, **options)


def semaphore_read(sem: Ref[DMA | REGULAR | BARRIER, Any, *tuple[Any, ...]]) -> jax.Array:
    """What a semaphore counts now."""
    return pl.semaphore_read(sem)
