"""Packages that ask this machine for its devices while they are traced get the target's description instead.

`typedpallas.compilers.ambient` answers those that ask JAX's ambient mesh, as JAX's own kernels do. Others read
``jax.devices()[0].core_count`` to size a grid; no mesh answers that, so here, and only here, it is patched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import jax
import jax.extend.backend

from typedpallas.chips import GpuTarget, Target
from typedpallas.compilers.ambient import described_device

_PROCESSORS = {"a100": 108, "h100": 132, "b200": 148}
"""Streaming multiprocessors (NVIDIA's data sheets of the SXM cards). Grids are sized by them, nothing else is."""


@dataclass(frozen=True)
class _Device:
    """What packages read of a device."""

    platform: str
    device_kind: str
    core_count: int
    num_cores: int
    compute_capability: str | None
    id: int = 0
    process_index: int = 0
    local_hardware_id: int = 0


def _device(target: Target) -> _Device:
    described = described_device(target)
    if isinstance(target, GpuTarget):
        count = _PROCESSORS.get(target.name, target.cores)
        return _Device("gpu", described.device_kind, count, count, target.compute_capability)
    return _Device("tpu", described.device_kind, target.cores, target.cores, None)


@contextmanager
def described(target: Target, count: int = 1) -> Iterator[None]:
    """Inside, whoever asks JAX for devices is told of one like the target, and that there are ``count``."""
    device = _device(target)

    def devices(*args: Any, **kwargs: Any) -> list[_Device]:
        return [device]

    with ExitStack() as stack:
        for module, name in ((jax, "devices"), (jax, "local_devices")):
            stack.enter_context(patch.object(module, name, devices))
        for name in ("device_count", "local_device_count"):
            stack.enter_context(patch.object(jax, name, lambda *args, **kwargs: count))
        stack.enter_context(patch.object(jax, "default_backend", lambda: device.platform))
        stack.enter_context(patch.object(jax.extend.backend, "get_default_device", lambda: device))
        yield
