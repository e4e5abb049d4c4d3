"""Run-time starts of narrow elements on TPU v2 and v3, where tiles of 8-bit arrays have 8 rows: rule and compiler."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp

_SMEM, _HBM = pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.HBM)


def _stored(shape, dtype, step, *, scratch):
    """Two rows stored to a window, or to a buffer of the kernel's own."""

    def kernel(s, x, o, *own):
        to = own[0] if scratch else o
        to[...] = jnp.zeros_like(to)
        to[pl.ds(s[0] * step, 2), :] = jnp.ones((2, shape[1]), dtype)
        if scratch:
            o[...] = to[...]

    buffers = [pltpu.VMEM(shape, dtype)] if scratch else []
    out = jax.ShapeDtypeStruct(shape, dtype)
    whole = pl.BlockSpec(shape, lambda: (0, 0))
    return lambda s, x: pl.pallas_call(kernel, out, in_specs=[_SMEM, whole], scratch_shapes=buffers)(s, x)


def _copied(shape, dtype, step):
    """Eight rows copied from HBM."""

    def kernel(s, x, o, buffer):
        pltpu.sync_copy(x.at[pl.ds(s[0] * step, 8)], buffer)
        o[...] = buffer[...]

    out = jax.ShapeDtypeStruct((8, shape[1]), dtype)
    buffers = [pltpu.VMEM(out.shape, dtype)]
    return lambda s, x: pl.pallas_call(kernel, out, in_specs=[_SMEM, _HBM], scratch_shapes=buffers)(s, x)


@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v3"])
@pytest.mark.parametrize("step", [4, 8])
@pytest.mark.parametrize(
    ("kind", "shape", "dtype"),
    [
        ("window", (96, 100), jnp.int8),
        ("scratch", (64, 256), jnp.int8),
        ("copy", (40, 128), jnp.int8),
        ("copy", (20, 128), jnp.bfloat16),
    ],
)
def test_starts_are_refused_as_by_the_compiler(target, kind, shape, dtype, step):
    run = _copied(shape, dtype, step) if kind == "copy" else _stored(shape, dtype, step, scratch=kind == "scratch")
    arguments = (jax.ShapeDtypeStruct((1,), jnp.int32), jax.ShapeDtypeStruct(shape, dtype))
    refuted = {d.rule for d in tp.check(run, *arguments, target=target).diagnostics if d.verdict == "refuted"}
    try:
        tp.compile(run, *arguments, target=target)
        compiles = True
    except tp.CompileError as error:
        assert error.kind == "refused"
        compiles = False
    assert (refuted, compiles) == (({"unaligned-slice"}, False) if step == 4 else (set(), True))
