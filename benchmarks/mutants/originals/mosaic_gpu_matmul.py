"""A matrix product on Hopper: tiles come by copies into shared memory, the tensor cores sum in registers."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

TARGETS = ("h100", "h200")
M, K, N = 256, 256, 256
BM, BK, BN = 128, 64, 128
ARGS = (jax.ShapeDtypeStruct((M, K), jnp.float16), jax.ShapeDtypeStruct((K, N), jnp.float16))
SWIZZLE = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))


def kernel(x_gmem, y_gmem, out_gmem, x_smem, y_smem, out_smem, arrived):
    i, j = lax.axis_index("i"), lax.axis_index("j")
    rows, columns = pl.ds(i * BM, BM), pl.ds(j * BN, BN)

    @functools.partial(pl.run_scoped, acc=plgpu.ACC((BM, BN), jnp.float32))
    def _(acc):
        @pl.loop(0, K // BK)
        def _(step):
            inner = pl.ds(step * BK, BK)
            plgpu.copy_gmem_to_smem(x_gmem.at[rows, inner], x_smem, arrived)
            plgpu.copy_gmem_to_smem(y_gmem.at[inner, columns], y_smem, arrived)
            plgpu.barrier_wait(arrived)
            plgpu.wgmma(acc, x_smem, y_smem)
            plgpu.wgmma_wait(0)

        out_smem[...] = acc[...].astype(jnp.float16)

    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(out_smem, out_gmem.at[rows, columns])
    plgpu.wait_smem_to_gmem(0)


def run(x, y, interpret=False):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((M, N), jnp.float16),
        grid=(M // BM, N // BN),
        grid_names=("i", "j"),
        scratch_types=[
            plgpu.SMEM((BM, BK), jnp.float16, transforms=SWIZZLE),
            plgpu.SMEM((BK, BN), jnp.float16, transforms=SWIZZLE),
            plgpu.SMEM((BM, BN), jnp.float16),
            plgpu.Barrier(num_arrivals=2),
        ],
    )(x, y)


def reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(jnp.float16)
