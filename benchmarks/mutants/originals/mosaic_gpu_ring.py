"""A warp-specialised product on Hopper: one warpgroup copies into a ring of slots, two others multiply."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

TARGETS = ("h100", "h200")
M, K, N = 256, 512, 128
BM, BK, SLOTS = 64, 64, 3
STEPS = K // BK
ARGS = (jax.ShapeDtypeStruct((M, K), jnp.float16), jax.ShapeDtypeStruct((K, N), jnp.float16))
TILED = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))


def multiply(group, row, x_slots, y_slots, out_slots, out_gmem, filled, freed):
    def products(acc):
        @pl.loop(0, STEPS)
        def _(step):
            slot = lax.rem(step, SLOTS)
            plgpu.barrier_wait(filled.at[slot])
            plgpu.wgmma(acc, x_slots.at[slot, pl.ds(group * BM, BM)], y_slots.at[slot])
            plgpu.wgmma_wait(1)

            @pl.when(step > 0)
            def _():
                plgpu.barrier_arrive(freed.at[lax.rem(step - 1, SLOTS)])

        sums = acc[...]
        plgpu.barrier_arrive(freed.at[(STEPS - 1) % SLOTS])
        return sums

    sums = pl.run_scoped(products, plgpu.ACC((BM, N), jnp.float32))
    for half in range(2):
        out = out_slots.at[group]
        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        out[...] = sums[:, half * 64 : half * 64 + 64].astype(jnp.float16)
        plgpu.commit_smem()
        rows = pl.ds(row + group * BM, BM)
        plgpu.copy_smem_to_gmem(out, out_gmem.at[rows, pl.ds(half * 64, 64)])
    plgpu.wait_smem_to_gmem(0)


def fill(row, x_gmem, y_gmem, x_slots, y_slots, filled, freed):
    @pl.loop(0, STEPS)
    def _(step):
        slot = lax.rem(step, SLOTS)

        @pl.when(step >= SLOTS)
        def _():
            plgpu.barrier_wait(freed.at[slot])

        part = pl.ds(step * BK, BK)
        plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(row, 2 * BM), part], x_slots.at[slot], filled.at[slot])
        plgpu.copy_gmem_to_smem(y_gmem.at[part], y_slots.at[slot], filled.at[slot])

    @pl.loop(STEPS - SLOTS, STEPS)
    def _(step):
        plgpu.barrier_wait(freed.at[lax.rem(step, SLOTS)])


def kernel(x_gmem, y_gmem, out_gmem, x_slots, y_slots, out_slots, filled, freed):
    group = lax.axis_index("group")
    row = lax.axis_index("i") * 2 * BM

    @pl.when(group < 2)
    def _():
        multiply(group, row, x_slots, y_slots, out_slots, out_gmem, filled, freed)

    @pl.when(group == 2)
    def _():
        fill(row, x_gmem, y_gmem, x_slots, y_slots, filled, freed)


def run(x, y, interpret=False):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((M, N), jnp.float16),
        grid=(M // (2 * BM),),
        grid_names=("i",),
        num_threads=3,
        thread_name="group",
        scratch_types=[
            plgpu.SMEM((SLOTS, 2 * BM, BK), jnp.float16, transforms=TILED),
            plgpu.SMEM((SLOTS, BK, N), jnp.float16, transforms=TILED),
            plgpu.SMEM((2, BM, 64), jnp.float16, transforms=TILED),
            plgpu.Barrier(num_arrivals=2, num_barriers=SLOTS),
            plgpu.Barrier(num_arrivals=2, num_barriers=SLOTS),
        ],
    )(x, y)


def reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(jnp.float16)
