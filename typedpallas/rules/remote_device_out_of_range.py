"""`remote-device-out-of-range`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, RemoteDevice
from typedpallas.rules.base import Example, Finding, Rule

_MODULE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

ARGS = (jax.ShapeDtypeStruct((32, 128), jnp.float32),)

def kernel(x_ref, o_ref, sent_ref, received_ref):
    me = jax.lax.axis_index("ring")
    copy = pltpu.make_async_remote_copy(
        x_ref, o_ref, sent_ref, received_ref, device_id={device}, device_id_type=pl.DeviceIdType.LOGICAL
    )
    copy.start()
    copy.wait()

def passed_on(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA],
    )(x)

def run(x):
    mesh = AbstractMesh((4,), ("ring",), axis_types=(AxisType.Auto,))
    return jax.shard_map(passed_on, mesh=mesh, in_specs=P("ring"), out_specs=P("ring"), check_vma=False)(x)

def reference(x):
    return jnp.roll(x, 8, axis=0)
"""


class RemoteDeviceOutOfRange(Rule):
    """A copy or a signal goes to a device that the mesh does not have.

    `device_id` is a number among all devices of the mesh (`DeviceIdType.LOGICAL`), or coordinates along its axes:
    one for each, in order, or a dict by name (`DeviceIdType.MESH`). The neighbour after the last device is the
    first only where the arithmetic says so: `(me + 1) % count`. Every device of the mesh runs the kernel, so an id
    that is wrong on one of them is wrong.

    Machines: TPU. Source: libtpu 0.0.48 refuses a constant ("Invalid device_id"), and JAX a wrong number of
    coordinates when it lowers; an id that is computed goes through, and the copy goes to nobody.
    """

    slug = "remote-device-out-of-range"
    judges = (RemoteDevice,)
    message = "the device that this goes to does not exist: expected {expected}, found {found}"
    example = Example(
        bad=_MODULE.format(device="me + 1"),
        good=_MODULE.format(device="(me + 1) % 4"),
        targets=("tpu-v5e",),
        compiler="accepts",
        runs=False,
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, RemoteDevice)
        if event.given is not None:
            axes = "axis" if event.size == 1 else "axes"
            yield self.refuted(
                expected=f"a coordinate for each of the mesh's {event.size} {axes}",
                found=event.given,
                help="give one coordinate an axis, in the mesh's order, or a dict by the axes' names",
            )
        elif event.outside is not None:
            along = "the mesh" if event.axis is None else f"mesh axis `{event.axis}`"
            at = ", ".join(f"{name} = {value}" for name, value in event.outside.at.items())
            yield self.refuted(
                expected=f"a number from 0 to {event.size - 1} along {along}",
                found=event.outside.start,
                witness=f"at {at} it is {event.outside.start}" if at else f"it is {event.outside.start}",
                help=f"wrap it around: `device % {event.size}`",
            )
