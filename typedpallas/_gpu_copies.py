"""What moves data between the memories of a GPU, typed by the spaces between which it exists.

Source: the signatures and checks of `jax.experimental.pallas.mosaic_gpu`, which names each copy by its ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import jax
from jax.experimental.pallas import mosaic_gpu as plgpu

if TYPE_CHECKING:
    from typedpallas._refs import Ref, Stored
    from typedpallas.gpu import ACC, GMEM, SMEM, TMEM, Barrier
    from typedpallas.spaces import BLOCK


def copy_gmem_to_smem(
    src: Ref[GMEM, Any, *tuple[Any, ...]],
    dst: Stored[SMEM | BLOCK],
    barrier: Ref[Barrier, Any, *tuple[Any, ...]] | None = None,
    **options: Any,
) -> None:
    """Begins a copy whose end arrives at ``barrier``; Ampere copies have none. ``options``: those of Pallas."""
    plgpu.copy_gmem_to_smem(src, cast("Any", dst), barrier, **options)


def copy_smem_to_gmem(src: Ref[SMEM | BLOCK, Any, *tuple[Any, ...]], dst: Stored[GMEM], **options: Any) -> None:
    """Begins a copy; `plgpu.wait_smem_to_gmem` ends it. ``options``: those of Pallas."""
    plgpu.copy_smem_to_gmem(src, cast("Any", dst), **options)


def async_copy_smem_to_tmem(src: Ref[SMEM | BLOCK, Any, *tuple[Any, ...]], dst: Stored[TMEM], **options: Any) -> None:
    """Begins a copy into tensor memory. ``options``: those of Pallas."""
    plgpu.async_copy_smem_to_tmem(src, cast("Any", dst), **options)


def async_load_tmem(src: Ref[TMEM, Any, *tuple[Any, ...]], *, layout: Any = None) -> jax.Array:
    """Reads tensor memory into registers; `plgpu.wait_load_tmem` before what was read is overwritten."""
    return plgpu.async_load_tmem(src, layout=layout)


def async_store_tmem(dst: Stored[TMEM], value: jax.Array) -> None:
    """Writes registers to tensor memory; `plgpu.commit_tmem` before it is read."""
    plgpu.async_store_tmem(cast("Any", dst), value)


def wgmma(
    acc: Ref[ACC, Any, *tuple[Any, ...]],
    a: Ref[SMEM | BLOCK, Any, *tuple[Any, ...]] | jax.Array,
    b: Ref[SMEM | BLOCK, Any, *tuple[Any, ...]],
) -> None:
    """Begins ``acc += a @ b`` on Hopper's matrix units; ``a`` may be in registers, ``b`` is in shared memory."""
    plgpu.wgmma(cast("Any", acc), a, b)
