"""`indivisible-shard`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, Shard
from typedpallas.rules.base import Example, Finding, Rule

_MODULE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

ARGS = (jax.ShapeDtypeStruct(({rows}, 128), jnp.float32),)

def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2.0

def doubled(x):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

def run(x):
    mesh = AbstractMesh((4,), ("batch",), axis_types=(AxisType.Auto,))
    spec = P("batch")
    return jax.shard_map(doubled, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)(x)

def reference(x):
    return x * 2.0
"""


class IndivisibleShard(Rule):
    """A sharding cuts an axis into equal parts, and their number does not divide the axis.

    `jax.device_put`, `jax.jit` with `in_shardings` and `jax.shard_map` give each device the same share. The remainder
    of a dataset, a batch of 19 for 4 devices, has no equal shares.

    Machines: all. Source: JAX refuses it while tracing, in these functions' own words.
    """

    slug = "indivisible-shard"
    judges = (Shard,)
    message = "axis {axis} of {what} cannot be cut into {parts} equal parts: expected {expected}, found {found}"
    example = Example(bad=_MODULE.format(rows=42), good=_MODULE.format(rows=32), targets=("tpu-v5e",), runs=False)

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Shard)
        rest = event.size % event.parts
        if not rest:
            return
        down, up = event.size - rest, event.size - rest + event.parts
        cut_by = ", ".join(f"`{name}`" for name in event.mesh_axes)
        yield self.refuted(
            axis=event.axis,
            what=event.what,
            parts=event.parts,
            expected=f"a multiple of {event.parts}",
            found=event.size,
            witness=f"{event.size} = {event.size // event.parts}*{event.parts} + {rest}",
            notes=(f"the mesh cuts it along {cut_by}",) if cut_by else (),
            help=f"pad it to {up}"
            + (f" or drop the last {rest} (leaving {down})" if down else "")
            + "; or do not shard this axis",
        )
