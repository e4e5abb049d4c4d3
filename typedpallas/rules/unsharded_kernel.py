"""`unsharded-kernel`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, ShardedOperand
from typedpallas.rules.base import Example, Finding, Rule

_MODULE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

MESH = AbstractMesh((2,), ("data",), axis_types=(AxisType.Auto,))
ARGS = (jax.ShapeDtypeStruct((32, 128), jnp.float32, sharding=NamedSharding(MESH, P("data"))),)

def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2.0

def doubled(x):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

def run(x):
    return {call}

def reference(x):
    return x * 2.0
"""


class UnshardedKernel(Rule):
    """A program that runs on several devices calls a kernel outside of `jax.shard_map`.

    The compiler cuts a program into parts for each device by itself, but not a kernel: it does not know what the
    kernel does with its blocks. That holds even if the kernel's own operands are copies on every device. Inside
    `jax.shard_map` the kernel sees its device's share. The mapping must take all axes of the mesh.

    Machines: TPU. On GPUs the operands are gathered on every device, which is slow, and right.

    Source: JAX's lowering ("cannot be automatically partitioned"), asked with sharded, replicated and unrelated
    arguments, and with mappings over some of the axes.
    """

    slug = "unsharded-kernel"
    judges = (ShardedOperand,)
    message = "`{kernel}` runs on several devices: expected {expected}, found {found}"
    example = Example(
        bad=_MODULE.format(call="doubled(x)"),
        good=_MODULE.format(
            call='jax.shard_map(doubled, mesh=MESH, in_specs=P("data"), out_specs=P("data"), check_vma=False)(x)'
        ),
        targets=("tpu-v5e",),
        runs=False,
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, ShardedOperand)
        if event.devices:
            found = f"no mapping, with `{event.name}` spread by `{event.spec}` over {event.devices} devices"
            advice = "wrap the call: `jax.shard_map(call, mesh=..., in_specs=..., out_specs=..., check_vma=False)`"
        else:
            found = f"a mapping that leaves out {event.spec}"
            advice = "leave out `axis_names`, so that the mapping takes the whole mesh"
        yield self.refuted(
            kernel=event.kernel, expected="a `jax.shard_map` over the whole mesh", found=found, help=advice
        )
