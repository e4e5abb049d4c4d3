"""Loads and stores in the wrong memory, and indices of the wrong type."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from cases_public.registry import H100, V5E, S, Side, case, f32, i32

SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)


@case("pytorch/helion#2018", V5E, "load-from-hbm", S(32, 128), reference=lambda table: table[8:16] * 3.0)
def direct_read_of_hbm(side: Side) -> Any:
    """Rows of an operand that stayed in HBM are indexed as if it were a block."""

    def direct(table, out):
        out[...] = table[pl.ds(8, 8), :] * 3.0

    def staged(table, out, stage):
        pltpu.sync_copy(table.at[pl.ds(8, 8), :], stage)
        out[...] = stage[...] * 3.0

    scratch = [] if side == "bad" else [pltpu.VMEM((8, 128), f32)]
    return pl.pallas_call(
        direct if side == "bad" else staged, out_shape=S(8, 128), in_specs=[ANYWHERE], scratch_shapes=scratch
    )


@case("jax-ml/jax#20046", V5E, "vector-store-to-smem", S(1), reference=lambda a: a * 2.0 + 1.0)
def vector_of_one_into_smem(side: Side) -> Any:
    """A scalar plus an array of length 1 is an array."""

    def vector(a, o):
        o[...] = a[0] * 2.0 + jnp.ones((1,), f32)

    def scalar(a, o):
        o[0] = a[0] * 2.0 + 1.0

    kernel = vector if side == "bad" else scalar
    return pl.pallas_call(kernel, out_shape=S(1), in_specs=[SMEM], out_specs=SMEM)


@case("jax-ml/jax#22817", V5E, "scalar-store-to-vmem", reference=lambda: jnp.arange(8, dtype=i32) ** 2)
def program_id_into_vmem(side: Side) -> Any:
    """A program id is a scalar: it belongs in scalar memory."""

    def kernel(o):
        step = pl.program_id(0)
        o[step] = step * step

    where = pl.BlockSpec() if side == "bad" else SMEM
    return pl.pallas_call(kernel, out_shape=S(8, dtype=i32), grid=(8,), out_specs=where)


@case("jax-ml/jax#26034", V5E, "index-dtype", reference=lambda: jnp.arange(8, dtype=f32))
def float_counter_as_index(side: Side) -> Any:
    """A counter is converted to a float, then used both as a value and as an index."""

    def converted_early(o):
        step = pl.program_id(0).astype(f32)
        o[step] = step

    def converted_late(o):
        step = pl.program_id(0)
        o[step] = step.astype(f32)

    kernel = converted_early if side == "bad" else converted_late
    return pl.pallas_call(kernel, out_shape=S(8), grid=(8,), out_specs=SMEM)


@case("jax-ml/jax#23495", H100, "space-not-on-target", S(16, 128), reference=lambda x: x * 2.0)
def tpu_scratch_on_a_gpu(side: Side) -> Any:
    """A TPU kernel, with its scratch in VMEM, is run on a GPU."""

    def with_scratch(x, o, acc):
        acc[...] = x[...] * 2.0
        o[...] = acc[...]

    def without(x, o):
        o[...] = x[...] * 2.0

    scratch = [pltpu.VMEM((16, 128), f32)] if side == "bad" else []
    kernel = with_scratch if side == "bad" else without
    return pl.pallas_call(kernel, out_shape=S(16, 128), scratch_shapes=scratch)


@case("jax-ml/jax-triton#170", H100, "rank-mismatch", S(16, 16), reference=lambda x: x * 2.0)
def more_indices_than_dims(side: Side) -> Any:
    """The indexing of another kernel's ref, one rank higher, was kept."""

    def kernel(x, o):
        o[...] = (x[0, 0, :] if side == "bad" else x[...]) * 2.0

    return pl.pallas_call(kernel, out_shape=S(16, 16))


def _shifted(x: jax.Array, offset: jax.Array) -> jax.Array:
    return jnp.zeros_like(x).at[8:].set(x[:8])


@case(
    "jax-ml/jax#20406",
    (V5E, H100),
    "captured-constant",
    S(16, 128),
    S(dtype=i32),
    reference=_shifted,
    inputs=(jnp.ones((16, 128), f32), jnp.int32(8)),
)
def traced_offset_in_a_closure(side: Side) -> Any:
    """An offset that `jit` traces is closed over; a Python int would have been fine."""

    def run(x, offset):
        start = offset if side == "bad" else 8

        def kernel(x, o):
            o[...] = jnp.zeros_like(o)
            o[pl.ds(start, 8), :] = x[pl.ds(0, 8), :]

        return pl.pallas_call(kernel, out_shape=S(16, 128))(x)

    return jax.jit(run)
