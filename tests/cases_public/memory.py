"""Kernels that ask for more on-chip memory than there is."""

from typing import Any

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from cases_public.registry import H100, V5E, S, Side, bf16, case, f32, i32


@case("vllm-project/vllm#8318", V5E, "smem-overflow")
def page_table_of_a_mebibyte(side: Side) -> Any:
    """The prefetched page table of 256 sequences fills scalar memory."""
    sequences = 256 if side == "bad" else 64

    def kernel(table, x, o):
        o[...] = x[...]

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i, table: (table[0, i], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, table: (i, 0)),
    )
    run = pl.pallas_call(kernel, grid_spec=grid, out_shape=S(32, 128))
    return run, (S(sequences, 1024, dtype=i32), S(64, 128))


@case("jax-ml/jax#20008", H100, "shared-memory-overflow", S(1024, 1024), S(1024, 1024))
def half_a_matrix_per_program(side: Side) -> Any:
    """A tutorial's block sizes: both operands' tiles are 2 MiB."""

    def at_once(a, b, o):
        o[...] = jnp.dot(a[...], b[...])

    def in_steps(a, b, o):
        total = jnp.zeros((64, 64), f32)
        for k in range(16):
            part = pl.ds(k * 64, 64)
            total += jnp.dot(a[:, part], b[part, :])
        o[...] = total

    size = 512 if side == "bad" else 64
    return pl.pallas_call(
        at_once if side == "bad" else in_steps,
        out_shape=S(1024, 1024),
        grid=(1024 // size, 1024 // size),
        in_specs=[pl.BlockSpec((size, 1024), lambda i, j: (i, 0)), pl.BlockSpec((1024, size), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((size, size), lambda i, j: (i, j)),
    )


@case(
    "marin-community/marin#3159",
    H100,
    "shared-memory-overflow",
    S(64, 256, dtype=bf16),
    S(256, 4096, dtype=bf16),
)
def weight_tile_of_a_mebibyte(side: Side) -> Any:
    """A tile that was tuned for another device."""
    width = 2048 if side == "bad" else 64

    def kernel(x, w, o):
        @pl.when(pl.program_id(0) >= 0)
        def _():
            o[...] = jnp.dot(x[...], w[...], preferred_element_type=f32)

    return pl.pallas_call(
        kernel,
        out_shape=S(64, 4096),
        grid=(4096 // width,),
        in_specs=[pl.BlockSpec((64, 256), lambda j: (0, 0)), pl.BlockSpec((256, width), lambda j: (0, j))],
        out_specs=pl.BlockSpec((64, width), lambda j: (0, j)),
    )
