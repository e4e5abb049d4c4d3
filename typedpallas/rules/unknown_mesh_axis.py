"""`unknown-mesh-axis`."""

import difflib
from collections.abc import Iterator

from typedpallas.events import Context, Event, MeshAxis
from typedpallas.rules.base import Example, Finding, Rule

_MODULE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

ARGS = (jax.ShapeDtypeStruct((32, 128), jnp.float32),)

def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2.0

def doubled(x):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

def run(x):
    mesh = AbstractMesh((4,), ("batch",), axis_types=(AxisType.Auto,))
    spec = {spec}
    return jax.shard_map(doubled, mesh=mesh, in_specs=spec, out_specs=P("batch"), check_vma=False)(x)

def reference(x):
    return x * 2.0
"""


class UnknownMeshAxis(Rule):
    """An axis of the mesh is named that it does not have.

    `jax.shard_map`'s specs, `NamedSharding`, `jax.lax.axis_index` inside a kernel and the dicts that name the device
    of a remote copy or signal speak of the axes of one mesh, by the names that `jax.make_mesh` or `Mesh` gave them.

    Machines: all. Source: JAX refuses specs and `axis_index` while it traces, each in its own words, and the dict of
    a `device_id` only when it lowers ("Unrecognized axes in device_id").
    """

    slug = "unknown-mesh-axis"
    judges = (MeshAxis,)
    message = "the mesh has no axis `{name}`: expected {expected}, found `{found}` in {where}"
    example = Example(
        bad=_MODULE.format(spec='P("bach")'), good=_MODULE.format(spec='P("batch")'), targets=("tpu-v5e",), runs=False
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, MeshAxis)
        known = event.known or ()
        close = difflib.get_close_matches(event.name, known, n=1)
        names = ", ".join(f"`{name}`" for name in known)
        yield self.refuted(
            name=event.name,
            expected=(f"one of {names}" if len(known) > 1 else names) if known else "an axis of the mesh around it",
            found=event.name,
            where=event.where,
            help=f"write `{close[0]}`" if close else "use a name that the mesh was made with",
        )
