"""Chips as data: one TOML file each, naming its sources; read here, never written.

A target is a chip that a vendor's compiler can compile for on this machine, present or not.
"""

import functools
import tomllib
from importlib import resources
from typing import Any, Literal

from typedpallas.records import record

type Machine = Literal["tpu", "gpu"]


class UnknownTarget(ValueError):
    """The name is no target; the message lists those that are."""


@record(frozen=True, kw_only=True)
class TpuTarget:
    """A TPU chip. Sizes in bytes; a vector register tile is ``sublanes`` x ``lanes`` 32-bit elements."""

    name: str
    machine: Literal["tpu"]
    device_kind: str
    """What JAX calls the device."""
    chip: str
    topology: str
    """The smallest topology that libtpu describes without hardware."""
    generation: int
    cores: int
    """TensorCores in one JAX device."""
    lanes: int
    sublanes: int
    vmem_default_bytes: int
    """What one kernel gets of VMEM unless it asks for more."""
    vmem_most_bytes: int
    """The most that one kernel can get, whatever it asks for."""
    smem_bytes: int
    chip_config: str = ""
    """How libtpu is told to use the chip's cores, where it would otherwise take each for a device."""
    aliases: tuple[str, ...] = ()


@record(frozen=True, kw_only=True)
class GpuTarget:
    """An NVIDIA GPU. Sizes in bytes."""

    name: str
    machine: Literal["gpu"]
    device_kind: str
    compute_capability: str
    shared_memory_bytes: int
    """What one block may use (the opt-in limit)."""
    shared_memory_per_core_bytes: int
    cores: int
    bandwidth_bytes_per_second: int
    l2_bytes: int
    memory_bytes: int
    compiled_as: str = ""
    """The device name used for compiling where JAX's own list lacks this card."""
    kinds: tuple[str, ...] = ()
    """How the names of devices begin that are this chip to a kernel: one compute capability, one shared memory."""
    aliases: tuple[str, ...] = ()

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability as numbers: ``(9, 0)``."""
        major, minor = self.compute_capability.split(".")
        return int(major), int(minor)


type Target = TpuTarget | GpuTarget


def _read(name: str, text: str) -> Target:
    fields: dict[str, Any] = tomllib.loads(text)
    for several in ("aliases", "kinds"):
        if several in fields:
            fields[several] = tuple(fields[several])
    kind = TpuTarget if fields["machine"] == "tpu" else GpuTarget
    return kind(name=name, **fields)


def _order(target: Target) -> tuple[object, ...]:
    if isinstance(target, TpuTarget):
        return (0, target.generation, target.name)
    return (1, target.capability, target.name)


@functools.cache
def _all() -> dict[str, Target]:
    files = [f for f in resources.files(__name__).iterdir() if f.name.endswith(".toml")]
    found = [_read(f.name.removesuffix(".toml"), f.read_text()) for f in files]
    return {target.name: target for target in sorted(found, key=_order)}


def targets() -> tuple[str, ...]:
    """The names of all targets: TPUs by generation, then GPUs by compute capability."""
    return tuple(_all())


def get(name: str) -> Target:
    """The target of this name or alias.

    Raises:
        UnknownTarget: no such target.
    """
    known = _all()
    if name in known:
        return known[name]
    for target in known.values():
        if name in target.aliases:
            return target
    raise UnknownTarget(f"unknown target `{name}`: expected one of {', '.join(known)}")


def for_device_kind(kind: str) -> Target | None:
    """The target whose device carries this name in JAX, or that is the same to a kernel; none if there is none."""
    for target in _all().values():
        if kind == target.device_kind or (isinstance(target, GpuTarget) and kind == target.compiled_as):
            return target
    alike = (
        (len(name), target)
        for target in _all().values()
        if isinstance(target, GpuTarget)
        for name in target.kinds
        if kind == name or kind.startswith((f"{name} ", f"{name}-"))
    )
    return max(alike, key=lambda found: found[0], default=(0, None))[1]
