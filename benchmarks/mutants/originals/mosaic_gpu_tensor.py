"""Products on Blackwell: one warpgroup multiplies into tensor memory, another stores the sums."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

TARGETS = ("b200",)
ARGS = (jax.ShapeDtypeStruct((256, 64), jnp.float16), jax.ShapeDtypeStruct((64, 128), jnp.float16))
TILED = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))


def kernel(x_gmem, y_gmem, o_gmem, x_smem, y_smem, o_smem, acc, filled, done, read):
    group = lax.axis_index("group")

    @pl.when(group == 0)
    def _():
        plgpu.copy_gmem_to_smem(y_gmem, y_smem, filled)
        plgpu.barrier_wait(filled)

        @pl.loop(0, 2)
        def _(step):
            plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(step * 128, 128)], x_smem, filled)
            plgpu.barrier_wait(filled)
            pl.when(step > 0)(lambda: plgpu.barrier_wait(read))
            plgpu.tcgen05_mma(acc, x_smem, y_smem, done, accumulate=False)
            plgpu.barrier_wait(done)

        plgpu.barrier_wait(read)

    @pl.when(group == 1)
    def _():
        @pl.loop(0, 2)
        def _(step):
            plgpu.barrier_wait(done)
            sums = plgpu.async_load_tmem(acc)
            plgpu.wait_load_tmem()
            plgpu.barrier_arrive(read)
            plgpu.wait_smem_to_gmem(0)
            o_smem[...] = sums.astype(jnp.float16)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[pl.ds(step * 128, 128)])

        plgpu.wait_smem_to_gmem(0)


def run(x, y, interpret=False):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((256, 128), jnp.float16),
        scratch_types=[
            plgpu.SMEM((128, 64), jnp.float16, transforms=TILED),
            plgpu.SMEM((64, 128), jnp.float16, transforms=TILED),
            plgpu.SMEM((128, 128), jnp.float16, transforms=TILED),
            plgpu.TMEM((128, 128), jnp.float32),
            plgpu.Barrier(),
            plgpu.Barrier(orders_tensor_core=True),
            plgpu.Barrier(orders_tensor_core=True),
        ],
        num_threads=2,
        thread_name="group",
    )(x, y)


def reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(jnp.float16)
