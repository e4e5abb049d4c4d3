"""Each block of rows times its group's matrix; which group is fetched ahead as a scalar."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TARGETS = ("tpu-v5p", "tpu-v5e", "tpu-7x")
M, K, N, GROUPS = 64, 256, 256, 3
BM, BK, BN = 16, 128, 128
ARGS = (
    jax.ShapeDtypeStruct((M // BM,), jnp.int32),
    jax.ShapeDtypeStruct((M, K), jnp.bfloat16),
    jax.ShapeDtypeStruct((GROUPS, K, N), jnp.bfloat16),
)


def kernel(group_ref, x_ref, w_ref, out_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros((BM, BN), jnp.float32)

    acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == K // BK - 1)
    def _():
        out_ref[...] = acc_ref[...]


def run(group, x, w, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(M // BM, N // BN, K // BK),
            in_specs=[
                pl.BlockSpec((BM, BK), lambda i, j, k, group: (i, k)),
                pl.BlockSpec((None, BK, BN), lambda i, j, k, group: (group[i], k, j)),
            ],
            out_specs=pl.BlockSpec((BM, BN), lambda i, j, k, group: (i, j)),
            scratch_shapes=[pltpu.VMEM((BM, BN), jnp.float32)],
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
        interpret=interpret,
    )(group, x, w)


def inputs(rng):
    group = jnp.asarray([0, 2, 2, 1], jnp.int32)
    return [group, *(jnp.asarray(rng.normal(size=a.shape), jnp.bfloat16) for a in ARGS[1:])]


def reference(group, x, w):
    rows = x.reshape(M // BM, BM, K)
    return jnp.einsum("bmk,bkn->bmn", rows, w[group], preferred_element_type=jnp.float32).reshape(M, N)
