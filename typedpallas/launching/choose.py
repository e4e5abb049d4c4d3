"""Which backend runs a launch: the one asked for, else the ambient target's, else the default device's."""

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import jax

from typedpallas.chips import GpuTarget, Target, for_device_kind
from typedpallas.compilers.ambient import current_target
from typedpallas.events import Backend
from typedpallas.launching.errors import LaunchError

BACKENDS: tuple[Backend, ...] = get_args(Backend.__value__)

_log = logging.getLogger("typedpallas")
_HOPPER = (9, 0)


@dataclass(frozen=True)
class Choice:
    """One way to run a launch."""

    backend: Backend
    interpret: bool
    """Whether to run on the CPU, step by step, instead of compiling."""
    target: Target | None
    """The chip that is traced for, where it is known."""
    capability: tuple[int, int] | None = None
    """Compute capability of the GPU."""
    asked: bool = True
    """Whether the backend follows from what was asked for or from the chip, and is no stand-in on a CPU."""


@dataclass(frozen=True)
class _Chip:
    platform: str
    target: Target | None
    capability: tuple[int, int] | None


def choices(backend: Backend | None, interpret: Any) -> Sequence[Choice]:
    """The ways to run, best first: the next is for kernels that the one before cannot run.

    Raises:
        LaunchError: ``backend`` is no backend, or the chip at hand does not run it.
    """
    if backend is not None and backend not in BACKENDS:
        raise LaunchError(f"`backend`: expected one of {', '.join(BACKENDS)}, found {backend!r}")
    chip = _chip()
    if interpret or (interpret is None and chip.platform == "cpu"):
        if interpret is None:
            _say_interpreted()
        asked = backend is not None or chip.target is not None
        return [Choice(backend or "mosaic_tpu", True, chip.target, chip.capability, asked)]
    runs = _runs(chip)
    if backend is not None and backend not in runs:
        found = chip.target.name if chip.target is not None else chip.platform
        expected = " or ".join(runs) or "another chip"
        raise LaunchError(f"backend `{backend}` does not run on {found}: expected {expected}")
    return [Choice(b, False, chip.target, chip.capability) for b in ([backend] if backend is not None else runs)]


def _runs(chip: _Chip) -> list[Backend]:
    if chip.platform == "tpu":
        return ["mosaic_tpu"]
    if chip.platform != "gpu":
        return []
    if chip.capability is not None and chip.capability < _HOPPER:
        return ["triton"]
    return ["mosaic_gpu", "triton"]


def _chip() -> _Chip:
    target = current_target()
    if target is not None:
        return _Chip(target.machine, target, target.capability if isinstance(target, GpuTarget) else None)
    device = _default_device()
    target = for_device_kind(device.device_kind)
    platform = {"cuda": "gpu", "rocm": "gpu"}.get(device.platform, device.platform)
    return _Chip(platform, target, _capability(device))


def _default_device() -> jax.Device:
    chosen = jax.config.jax_default_device
    if isinstance(chosen, jax.Device):
        return chosen
    return jax.devices(chosen)[0] if isinstance(chosen, str) else jax.devices()[0]


def _capability(device: jax.Device) -> tuple[int, int] | None:
    text = getattr(device, "compute_capability", None)
    if text is None:
        return None
    major, _, minor = str(text).partition(".")
    return int(major), int(minor or 0)


@functools.cache
def _say_interpreted() -> None:
    _log.warning(
        "no accelerator on this machine: launches run in Pallas's interpret mode, exactly but slowly "
        "(said once; `interpret=True` asks for it)"
    )
