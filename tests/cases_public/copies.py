"""Copies, operands and devices."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from cases_public.registry import V5E, S, Side, case, f32

ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)


@case("vllm-project/tpu-inference#412", V5E, "copy-not-waited", S(16, 128), reference=lambda x: x[:8])
def copy_that_nobody_waits_for(side: Side) -> Any:
    """Two copies start; on one path only the first is waited for."""

    def kernel(x, o, buffer, done):
        copies = [pltpu.make_async_copy(x.at[pl.ds(8 * k, 8), :], buffer.at[k], done.at[k]) for k in range(2)]
        for copy in copies:
            copy.start()
        for copy in copies[: 1 if side == "bad" else 2]:
            copy.wait()
        o[...] = buffer[0]

    return pl.pallas_call(
        kernel,
        out_shape=S(8, 128),
        in_specs=[ANYWHERE],
        scratch_shapes=[pltpu.VMEM((2, 8, 128), f32), pltpu.SemaphoreType.DMA((2,))],
    )


@case("jax-ml/jax#39744", V5E, "unused-operand", S(16, 256), verdict="open", reference=lambda x: x[:8])
def operand_that_nobody_reads(side: Side) -> Any:
    """An unused operand that the same `jit` makes spoils the copy of another in one compiler release."""
    extra = side == "bad"

    def kernel(*refs):
        x, o, buffer = refs[0], refs[-2], refs[-1]
        pltpu.sync_copy(x.at[pl.ds(0, 8), :], buffer)
        pltpu.sync_copy(buffer, o)

    run = pl.pallas_call(
        kernel,
        out_shape=S(8, 256),
        in_specs=[ANYWHERE] * (2 if extra else 1),
        out_specs=ANYWHERE,
        scratch_shapes=[pltpu.VMEM((8, 256), f32)],
    )
    return (lambda x: run(x, jnp.ones((16, 128), f32))) if extra else run


@case("marin-community/haliax#72", V5E, "unsharded-kernel")
def jit_over_a_sharded_operand(side: Side) -> Any:
    """A kernel cannot be partitioned: without `shard_map` the compiler refuses the sharded operand."""
    mesh = AbstractMesh((2,), ("d",), axis_types=(AxisType.Auto,))
    rows = 32 if side == "bad" else 16

    def kernel(x, o):
        o[...] = x[...] * 2.0

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    run = pl.pallas_call(kernel, out_shape=S(rows, 128), grid=(rows // 8,), in_specs=[spec], out_specs=spec)
    if side == "good":
        run = jax.shard_map(run, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)
    return run, (jax.ShapeDtypeStruct((32, 128), f32, sharding=NamedSharding(mesh, P("d"))),)


@case("Physical-Intelligence/openpi#607", V5E, "indivisible-shard")
def batch_that_the_mesh_does_not_divide(side: Side) -> Any:
    """The remainder batch of 19 is sharded over 4 devices; there is no kernel in it."""
    mesh = AbstractMesh((4,), ("batch",), axis_types=(AxisType.Auto,))
    sharding = NamedSharding(mesh, P("batch"))

    def place(x):
        return jax.device_put(x, sharding) * 1.0

    return place, (S(19 if side == "bad" else 20, 10, 32),)
