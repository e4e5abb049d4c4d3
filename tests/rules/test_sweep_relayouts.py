"""Columns and truth values that would have to be turned: the rule beside the compiler, chain by chain.

`benchmarks/agreement` draws such chains at random; these are the kinds that were found one by one.
"""

import functools

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp

pytestmark = pytest.mark.compiler
F32 = jnp.float32
BLOCK, FLAT = (256, 256), (256,)

CHAINS = {
    "a sum over lanes is stored": (lambda x, v: jnp.sum(x, axis=1), FLAT),
    "a row is added first": (lambda x, v: jnp.sum(x, axis=1) + v, FLAT),
    "it stays a column": (lambda x, v: x * jnp.maximum(jnp.sum(x, axis=1), v)[:, None], BLOCK),
    "it is summed again": (lambda x, v: x * jnp.sum(jnp.sum(x, axis=1) * v), BLOCK),
    "an axis comes in front": (lambda x, v: x * jnp.sum(x, axis=1)[None, :], BLOCK),
    "it is put together over turns": (
        lambda x, v: jax.lax.fori_loop(0, 4, lambda _, c: c + jnp.sum(x, axis=1), jnp.zeros(FLAT)),
        FLAT,
    ),
    "a sum over rows": (lambda x, v: jnp.sum(x, axis=0), FLAT),
    "a row decides about a column": (lambda x, v: x * jnp.where(v > 0, jnp.sum(x, axis=1), 0.0)[:, None], BLOCK),
    "what it decides about is all the same": (lambda x, v: jnp.where(jnp.sum(x, axis=1) > 0, v, v), FLAT),
    "nobody needs it": (lambda x, v: (jnp.sum(jnp.sum(x, axis=1)), v)[1], FLAT),
    "truth values become a column": (lambda x, v: jnp.where((v > 0)[:, None], x, 0.0), BLOCK),
    "numbers do, and are compared": (lambda x, v: jnp.where(v[:, None] > 0, x, 0.0), BLOCK),
    "truth values are a column": (lambda x, v: jnp.where((jnp.sum(x, axis=1) > 0)[:, None], x, 0.0), BLOCK),
    "counted rows are compared": (lambda x, v: jnp.where((jnp.arange(256) > 7)[:, None], x, 0.0), BLOCK),
    "the place of the largest of many lanes": (lambda x, v: x + jnp.argmax(x, axis=1, keepdims=True), BLOCK),
}


def _program(work, shape):
    def kernel(x_ref, v_ref, o_ref):
        o_ref[...] = work(x_ref[...], v_ref[...]).astype(F32)

    whole = pl.BlockSpec(memory_space=pltpu.VMEM)
    return pl.pallas_call(
        kernel, in_specs=[whole, whole], out_specs=whole, out_shape=jax.ShapeDtypeStruct(shape, F32)
    )


@functools.cache
def _taken(chain: str, target: str) -> bool:
    args = (jax.ShapeDtypeStruct(BLOCK, F32), jax.ShapeDtypeStruct(FLAT, F32))
    try:
        tp.compile(_program(*CHAINS[chain]), *args, target=target)
    except tp.CompileError as error:
        assert error.kind in ("refused", "crashed"), error
        return False
    return True


@pytest.mark.parametrize("target", ["tpu-v3", "tpu-v4", "tpu-v5e", "tpu-7x"])
@pytest.mark.parametrize("chain", CHAINS)
def test_the_rule_says_what_the_compiler_says(chain: str, target: str) -> None:
    pytest.importorskip("libtpu", reason='pip install "typedpallas[tpu]"')
    args = (jax.ShapeDtypeStruct(BLOCK, F32), jax.ShapeDtypeStruct(FLAT, F32))
    report = tp.check(_program(*CHAINS[chain]), *args, target=target)
    assert report.ok == _taken(chain, target), str(report)
    assert {item.rule for item in report.diagnostics} <= {"unsupported-relayout", "primitive-not-on-target"}


def test_both_verdicts_come_up() -> None:
    pytest.importorskip("libtpu", reason='pip install "typedpallas[tpu]"')
    assert {_taken(chain, "tpu-v4") for chain in CHAINS} == {True, False}
    assert not all(_taken(chain, "tpu-7x") for chain in CHAINS)
