"""The devices that a kernel's copies and signals go to, and the mesh around it."""

import math
from collections.abc import Iterator, Mapping

from typedpallas.events import MeshAxis, RemoteDevice
from typedpallas.starts.bounds import Bounds
from typedpallas.tracing import jaxapi
from typedpallas.tracing.located import Located
from typedpallas.tracing.ranges import outside as ranges_outside
from typedpallas.tracing.ranges.frames import Device, Walk
from typedpallas.tracing.walk import KernelCall


def mesh_axes(kernel: KernelCall) -> dict[str, int]:
    """The devices along each axis of the meshes that `jax.shard_map` has put around a kernel; none without one."""
    found: dict[str, int] = {}
    for _, eqn in kernel.path:
        if eqn.primitive.name == "shard_map":
            found.update({str(name): int(size) for name, size in dict(eqn.params["mesh"].shape).items()})
    return found


def events(kernel: KernelCall, walk: Walk, known: Bounds) -> Iterator[Located]:
    """What is known of each device that is named: coordinates along axes, or one number, at its line."""
    if not walk.axes:
        return
    cores = dict(getattr(kernel.mesh, "shape", None) or {})
    for device in walk.devices:
        place = jaxapi.place(device.eqn)
        place = place if place.file else kernel.place
        names = list(walk.axes)
        if not device.named and device.ids and device.ids[0][0] is not None and len(device.ids) != len(names):
            wrong = RemoteDevice(axis=None, size=len(names), given=len(device.ids))
            yield Located(wrong, place, kernel.name)
            continue
        for axis, size, unknown in _sizes(device, walk.axes, cores):
            if unknown is not None:
                event = MeshAxis(name=unknown, known=tuple(names), where="`device_id`")
                yield Located(event, place, kernel.name)
                continue
            term = dict(device.ids)[axis]
            outside = None if term is None else ranges_outside.outside(term, device.path, known, size - 1)
            label = None if axis is None else names[axis] if isinstance(axis, int) else axis
            yield Located(RemoteDevice(axis=_shown(label), size=size, outside=outside), place, kernel.name)


def _shown(label: object) -> str | None:
    if label is None or isinstance(label, str):
        return label
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _sizes(
    device: Device, axes: Mapping[str, int], cores: Mapping[object, object]
) -> Iterator[tuple[object, int, str | None]]:
    """Each coordinate's axis and the devices along it; or the name of an axis that does not exist."""
    for axis, _ in device.ids:
        if axis is None:
            yield axis, math.prod(axes.values()), None
        elif isinstance(axis, int):
            yield axis, list(axes.values())[axis], None
        else:
            names = axis if isinstance(axis, tuple) else (axis,)
            if any(name in cores for name in names):
                continue
            unknown = next((str(name) for name in names if name not in axes), None)
            yield axis, math.prod(axes.get(str(name), 1) for name in names), unknown
