"""Rows and columns that are spread over a large block: the compiler puts some of it aside, and the ledger says so."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from benchmarks import ledger

pytestmark = pytest.mark.compiler
F32 = jnp.float32


def _chain(x, rows):
    for number, row in enumerate(rows):
        x = x * row if number % 2 else x - row
    return x


def _one_hot(x, rows):
    lane = jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)
    return jnp.exp(x) - (lane == rows[0].astype(jnp.int32)).astype(F32)


def _program(work, block, row, count):
    def kernel(x, *rest):
        rest[-1][...] = work(x[...], [one[...] for one in rest[:-1]])

    rows, lanes = block
    moving = pl.BlockSpec(block, lambda i: (i, 0))
    whole = pl.BlockSpec(memory_space=pltpu.VMEM)
    call = pl.pallas_call(
        kernel,
        grid=(2,),
        in_specs=[moving, *[whole] * count],
        out_specs=moving,
        out_shape=jax.ShapeDtypeStruct((2 * rows, lanes), F32),
    )
    return call, (jax.ShapeDtypeStruct((2 * rows, lanes), F32), *[jax.ShapeDtypeStruct(row, F32)] * count)


@pytest.mark.parametrize("target", ["tpu-v4", "tpu-v5e", "tpu-v6e"])
@pytest.mark.parametrize(
    ("work", "block", "row", "count"),
    [
        (_chain, (256, 2048), (256, 1), 1),
        (_chain, (256, 2048), (256, 1), 4),
        (_chain, (1024, 512), (1024, 1), 6),
        (_chain, (64, 2048), (1, 2048), 6),
        (_one_hot, (256, 2048), (256, 1), 1),
    ],
)
def test_what_is_put_aside_lies_in_the_interval(work, block, row, count, target) -> None:
    pytest.importorskip("libtpu", reason='pip install "typedpallas[tpu]"')
    call, args = _program(work, block, row, count)
    (found,) = ledger.rows("spread", call, args, target)
    assert found.inside, found
