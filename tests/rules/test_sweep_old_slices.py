"""Run-time starts of narrow elements on TPU v2 and v3, where tiles of 8-bit arrays have 8 rows: rule and compiler."""

import random

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from rules.sweeps_common import Kernel, refusal, refuted, samples, verdicts

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


def _from_data(choose: random.Random) -> Kernel:
    """16-bit rows of at most 128 lanes, loaded, stored or copied from a start that only data tells."""
    lead = choose.choice((None, None, 2))
    rows, lanes = choose.choice((2, 4, 6, 8, 12, 16, 20, 32, 40, 64)), choose.choice((128, 128, 100, 64, 1, 127, 8))
    shape = (*(() if lead is None else (lead,)), rows, lanes)
    dtype, way = choose.choice(("bfloat16", "int16")), choose.choice(("load", "store", "copy in", "copy out"))
    size = choose.choice([k for k in (1, 2, 3, 4, 8, 16) if k <= rows])
    step, more = choose.choice((1, 2, 4, 8, 16)), choose.choice((0, 0, 0, 1, 2, 8))
    placed = choose.choice(("scratch", "HBM" if way.startswith("copy") else "window"))

    def kernel(s, x, o, whole, part):
        rows_of = pl.ds(s[0] * step + more, size)
        ref = (whole if placed == "scratch" or way == "store" else x).at[(*[slice(None)] * (len(shape) - 2), rows_of)]
        if way == "load":
            part[...] = ref[...]
        elif way == "store":
            ref[...] = part[...]
        else:
            pltpu.sync_copy(*((ref, part) if way == "copy in" else (part, ref)))
        o[...] = jnp.zeros((8, 128), jnp.float32)

    spec = pl.BlockSpec(shape, lambda: (0,) * len(shape)) if placed == "window" else _HBM
    buffers = [pltpu.VMEM(shape, dtype), pltpu.VMEM((*shape[:-2], size, lanes), dtype)]
    out = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    run = pl.pallas_call(kernel, out_shape=out, in_specs=[_SMEM, spec], scratch_shapes=buffers)
    words = f"{way} of {size} rows from {step}*s + {more} of {placed} {shape} {dtype}"
    return Kernel(words, run, (jax.ShapeDtypeStruct((1,), jnp.int32), jax.ShapeDtypeStruct(shape, dtype)))


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v3"])
def test_narrow_rows_of_few_lanes_from_starts_that_data_tells(target):
    """350 such kernels were asked about once; this is a fresh dozen."""
    for kernel in samples(12, _from_data):
        found, words = verdicts(kernel, target), refusal(kernel, target)
        assert words or not refuted(found), f"{kernel.words} on {target}: taken, but {found}"
        assert found or not words, f"{kernel.words} on {target}: not noticed: {words[:300]}"
