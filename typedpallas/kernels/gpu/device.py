"""What a kernel needs to know of the GPU that it is traced for."""

import jax

from typedpallas.chips import GpuTarget
from typedpallas.compilers.ambient import current_target

_INTERPRETED = 2
"""Blocks at once where there is no GPU: enough that blocks differ, few enough for the interpreter."""


def multiprocessors() -> int:
    """Streaming multiprocessors of the target that is traced for, or of the default device."""
    target = current_target()
    if isinstance(target, GpuTarget):
        return target.cores
    device = jax.devices()[0]
    return int(device.core_count) if device.platform == "gpu" else _INTERPRETED
