"""Trace and lower as if on a chip that is not here.

Pallas asks JAX's ambient abstract mesh which chip it writes for: its device kind, its number of cores
and, in Mosaic GPU, its compute capability. `target_context` sets a mesh that carries a described device,
so no vendor's library is loaded and nothing global is patched. JAX keys its trace caches on the ambient
mesh: a function traced for one target is traced again for another.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import jax
from jax.sharding import AbstractDevice, AbstractMesh, AxisType

from typedpallas.chips import GpuTarget, Target, for_device_kind, get


@dataclass(frozen=True)
class _DescribedGpu(AbstractDevice):
    """An abstract GPU that, like a real one, knows its compute capability (``"9.0"``).

    Mosaic GPU reads that attribute off the ambient device and takes 9.0 for granted where it is missing.
    """

    compute_capability: str


def lowering_platform(target: Target) -> str:
    """The name JAX's lowering rules know the machine by."""
    return "tpu" if target.machine == "tpu" else "cuda"


def described_device(target: Target) -> AbstractDevice:
    """The target as JAX describes a device, under the kind that Pallas has in its lists."""
    if isinstance(target, GpuTarget):
        kind = target.compiled_as or target.device_kind
        return _DescribedGpu(kind, target.cores, "cuda", target.compute_capability)
    return AbstractDevice(target.device_kind, target.cores, "tpu")


def described_mesh(target: Target, sizes: tuple[int, ...] = (), names: tuple[str, ...] = ()) -> AbstractMesh:
    """A mesh of described devices, with these axes; ``jax.shard_map`` takes it.

    Without axes JAX treats it as no mesh at all (it is ``empty``), so operands need no shardings, the module
    is the one lowered without a mesh, and a mesh of the user's own inside replaces it freely.
    """
    return AbstractMesh(sizes, names, (AxisType.Auto,) * len(sizes), abstract_device=described_device(target))


@contextmanager
def target_context(target: str | Target) -> Iterator[Target]:
    """Inside, JAX traces as if for `target`; yields the target. Contexts nest; the inner one wins.

    Lowering picks its platform apart from the mesh, so inside lower with
    ``jax.jit(fn).trace(*avals).lower(lowering_platforms=(lowering_platform(target),))``.

    Raises:
        typedpallas.chips.UnknownTarget: no such target.
    """
    found = get(target) if isinstance(target, str) else target
    with jax.sharding.use_abstract_mesh(described_mesh(found)):
        yield found


@contextmanager
def no_target() -> Iterator[None]:
    """Inside, JAX traces for this machine's own device, whatever contexts are around it."""
    with jax.sharding.use_abstract_mesh(AbstractMesh((), ())):
        yield


def current_target() -> Target | None:
    """The target that JAX traces for now, read from the ambient mesh; none outside of any.

    A mesh of real devices, set with ``jax.set_mesh``, answers too where its device kind is a known target.
    """
    device = jax.sharding.get_abstract_mesh().abstract_device
    return None if device is None else for_device_kind(device.device_kind)
