"""A matrix product by `pltpu.emit_pipeline`, with a bias that is copied by hand and the result streamed out."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TARGETS = ("tpu-v5p", "tpu-v5e", "tpu-7x")
M, K, N, BM, BK = 256, 512, 256, 64, 128
ARGS = (
    jax.ShapeDtypeStruct((M, K), jnp.float32),
    jax.ShapeDtypeStruct((K, N), jnp.float32),
    jax.ShapeDtypeStruct((8, N), jnp.float32),
)


def kernel(x_hbm, y_hbm, bias_hbm, out_hbm, bias, total, arrived):
    copy = pltpu.make_async_copy(bias_hbm, bias, arrived)
    copy.start()

    def step(x_ref, y_ref, out_ref):
        k = pl.program_id(1)

        @pl.when(k == 0)
        def _():
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(k == pl.num_programs(1) - 1)
        def _():
            out_ref[...] = total[...] + bias[0:1, :]

    copy.wait()
    pltpu.emit_pipeline(
        step,
        grid=(M // BM, K // BK),
        in_specs=[pl.BlockSpec((BM, BK), lambda i, k: (i, k)), pl.BlockSpec((BK, N), lambda i, k: (k, 0))],
        out_specs=[pl.BlockSpec((BM, N), lambda i, k: (i, 0))],
    )(x_hbm, y_hbm, out_hbm)


def run(x, y, bias, interpret=False):
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        in_specs=[anywhere, anywhere, anywhere],
        out_specs=anywhere,
        scratch_shapes=[
            pltpu.VMEM((8, N), jnp.float32),
            pltpu.VMEM((BM, N), jnp.float32),
            pltpu.SemaphoreType.DMA,
        ],
        interpret=interpret,
    )(x, y, bias)


def reference(x, y, bias):
    return x @ y + bias[0]
