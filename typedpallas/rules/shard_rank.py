"""`shard-rank`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event
from typedpallas.events import ShardRank as LongSpec
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


class ShardRank(Rule):
    """A partition spec is longer than the array has axes.

    `PartitionSpec` has one entry for each axis of the array, first axis first; those left out are not cut. `None`
    stands for an axis that is kept whole.

    Machines: all. Source: JAX refuses it while tracing, in `jax.shard_map`, `jax.jit` and `jax.device_put`.
    """

    slug = "shard-rank"
    judges = (LongSpec,)
    message = "the spec of {what} is too long: expected {expected}, found {found}"
    example = Example(
        bad=_MODULE.format(spec='P(None, None, "batch")'),
        good=_MODULE.format(spec='P("batch", None)'),
        targets=("tpu-v5e",),
        runs=False,
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, LongSpec)
        if event.length <= event.rank:
            return
        entries = "entry" if event.rank == 1 else "entries"
        yield self.refuted(
            what=event.what,
            expected=f"at most {event.rank} {entries}",
            found=f"{event.length} in `{event.spec}`",
            help="one entry for each axis of the array; add the missing axes to the array, or drop entries",
        )
