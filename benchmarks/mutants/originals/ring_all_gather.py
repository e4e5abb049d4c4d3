"""Parts of an array gathered on every chip of a ring: half goes around one way, half the other way."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

TARGETS = ("tpu-v5e", "tpu-v4", "tpu-7x")
CHIPS, ROWS, WIDTH = 4, 16, 128
ARGS = (jax.ShapeDtypeStruct((CHIPS * ROWS, WIDTH), jnp.float32),)


def kernel(x_hbm, out_hbm, sent, came):
    me = lax.axis_index("x")
    right, left = lax.rem(me + 1, CHIPS), lax.rem(me + CHIPS - 1, CHIPS)
    barrier = pltpu.get_barrier_semaphore()
    for neighbour in (right, left):
        pl.semaphore_signal(barrier, 1, device_id={"x": neighbour})
    pl.semaphore_wait(barrier, 2)
    pltpu.sync_copy(x_hbm, out_hbm.at[me])
    for step in range(CHIPS - 1):
        ways = ((lax.rem(me + CHIPS - step, CHIPS), right), (lax.rem(me + step, CHIPS), left))
        copies = []
        for way, (part, to) in enumerate(ways):
            place = out_hbm.at[part, way]
            semaphores = sent.at[way, step], came.at[way, step]
            copies.append(pltpu.make_async_remote_copy(place, place, *semaphores, device_id={"x": to}))
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.wait()


def run(x, interpret=False):
    axes = (CHIPS,), ("x",), (AxisType.Auto,)
    chip = jax.sharding.get_abstract_mesh().abstract_device
    mesh = jax.make_mesh(*axes) if interpret else AbstractMesh(*axes, abstract_device=chip)
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    steps = pltpu.SemaphoreType.DMA((2, CHIPS - 1))

    def gathered(part):
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((CHIPS, 2, ROWS // 2, WIDTH), jnp.float32),
            in_specs=[anywhere],
            out_specs=anywhere,
            scratch_shapes=[steps, steps],
            compiler_params=pltpu.CompilerParams(collective_id=0),
            interpret=interpret,
        )(part.reshape(2, ROWS // 2, WIDTH)).reshape(-1, WIDTH)

    return jax.shard_map(gathered, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)(x)


def reference(x):
    return jnp.tile(x, (CHIPS, 1))
