"""A product on Hopper through `emit_pipeline`: each step leaves one product in flight, its blocks a step longer."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

TARGETS = ("h100", "h200")
M, K, N = 256, 512, 128
BM, BK = 128, 64
ARGS = (jax.ShapeDtypeStruct((M, K), jnp.float16), jax.ShapeDtypeStruct((K, N), jnp.float16))
TILED = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))


def kernel(x_gmem, y_gmem, out_gmem, out_smem):
    i = lax.axis_index("i")

    @functools.partial(pl.run_scoped, acc=plgpu.ACC((BM, N), jnp.float32))
    def _(acc):
        def step(_, x_smem, y_smem):
            plgpu.wgmma(acc, x_smem, y_smem)
            plgpu.wgmma_wait(1)

        plgpu.emit_pipeline(
            step,
            grid=(K // BK,),
            in_specs=[
                plgpu.BlockSpec((BM, BK), lambda k: (i, k), transforms=TILED, delay_release=1),
                plgpu.BlockSpec((BK, N), lambda k: (k, 0), transforms=TILED, delay_release=1),
            ],
            max_concurrent_steps=3,
        )(x_gmem, y_gmem)
        out_smem[...] = acc[...].astype(jnp.float16)

    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(out_smem, out_gmem.at[pl.ds(i * BM, BM)])
    plgpu.wait_smem_to_gmem(0)


def run(x, y, interpret=False):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((M, N), jnp.float16),
        grid=(M // BM,),
        grid_names=("i",),
        scratch_types=[plgpu.SMEM((BM, N), jnp.float16, transforms=TILED)],
    )(x, y)


def reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(jnp.float16)
