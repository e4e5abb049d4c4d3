"""`tpu.stream` and `tpu.copy`: right numbers, no races, nothing to refuse, and a compiler that takes them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import tpu


def _summed(blocks, rows, buffers, dtype=jnp.float32):
    """A kernel that adds up the blocks of its input, each times its number."""

    def kernel(x, o):
        o[...] = jnp.zeros_like(o)

        def add(i, block):
            o[...] += block[...] * (i + 1).astype(dtype)

        tpu.stream(x, rows, add, buffers=buffers)

    def run(x, interpret=False):
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((rows, 128), dtype),
            in_specs=[pl.BlockSpec(memory_space=pltpu.HBM)],
            interpret=interpret,
        )(x)

    return run, jax.ShapeDtypeStruct((blocks * rows, 128), dtype)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 6), st.sampled_from([8, 16]), st.integers(2, 4))
def test_every_block_comes_once_and_nothing_races(blocks, rows, buffers):
    run, aval = _summed(blocks, rows, buffers)
    x = np.arange(np.prod(aval.shape), dtype=np.float32).reshape(aval.shape) % 7
    found = run(x, interpret=pltpu.InterpretParams(detect_races=True, dma_execution_mode="on_wait"))
    numbers = np.arange(1, blocks + 1, dtype=np.float32)[:, None, None]
    np.testing.assert_array_equal(found, (x.reshape(blocks, rows, 128) * numbers).sum(0))
    assert tp.check(run, aval, target="tpu-v5e").diagnostics == ()


def test_the_compiler_takes_it():
    run, aval = _summed(4, 16, 2, jnp.bfloat16)
    tp.compile(run, aval, target="tpu-v6e")


@pytest.mark.parametrize(
    ("rows", "buffers", "words"),
    [(24, 2, "expected rows that divide 64, found 24; the nearest that does is 16"), (8, 1, "at least 2 buffers")],
)
def test_what_cannot_be_is_said(rows, buffers, words):
    run, _ = _summed(4, rows, buffers)
    with pytest.raises(ValueError, match=words):
        tp.check(run, jax.ShapeDtypeStruct((64, 128), jnp.float32))


def _under_way(body):
    def kernel(x, o, buffer, done):
        with tpu.copy(x, buffer, done):
            o[...] = body(buffer)
        o[...] += buffer[...]

    def run(x, interpret=False):
        return pl.pallas_call(
            kernel,
            out_shape=x,
            in_specs=[pl.BlockSpec(memory_space=pltpu.HBM)],
            scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA],
            interpret=interpret,
        )(x)

    return run


def test_a_copy_is_done_when_its_block_ends():
    run = _under_way(lambda buffer: jnp.ones(buffer.shape, buffer.dtype))
    x = np.arange(1024, dtype=np.float32).reshape(8, 128)
    np.testing.assert_array_equal(run(x, interpret=pltpu.InterpretParams(detect_races=True)), x + 1)
    assert tp.check(run, jax.ShapeDtypeStruct((8, 128), jnp.float32), target="tpu-v5e").diagnostics == ()


def test_its_buffer_is_not_to_be_used_inside():
    run = _under_way(lambda buffer: buffer[...])
    report = tp.check(run, jax.ShapeDtypeStruct((8, 128), jnp.float32), target="tpu-v5e")
    assert [(d.rule, d.verdict) for d in report.diagnostics] == [("read-before-wait", "refuted")]
