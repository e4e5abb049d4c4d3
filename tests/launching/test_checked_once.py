"""A launch is judged once for its sizes, types and JAX's settings, and a refusal is said every time."""

from typing import Literal as L

import jax
import jax.numpy as jnp
import pytest

import typedpallas as tp
from typedpallas import Dim, In, Multiple, Out, f32
from typedpallas.launching import checks
from typedpallas.tpu import HBM, VMEM


def double[BM: Multiple[L[8]], N: Dim](x: In[VMEM, f32, BM, N], out: Out[VMEM, f32, BM, N]) -> None:
    out[...] = x[...] * 2.0


def reads_hbm[M: Multiple[L[8]], N: Dim](x: In[HBM, f32, M, N], out: Out[VMEM, f32, M, N]) -> None:
    out[...] = x[...] * 2.0


@pytest.fixture
def judged(monkeypatch):
    """How many launches were judged so far; what JAX loads for a first launch adds to its settings."""
    tp.launch(double, "BM N -> BM N")(jnp.ones((8, 8), jnp.float32))
    count, judge = [], checks.check_traced

    def counted(*arguments):
        count.append(arguments)
        judge(*arguments)

    monkeypatch.setattr(checks, "check_traced", counted)
    return lambda: len(count)


def test_sizes_that_passed_are_not_judged_again(judged):
    launch = tp.launch(double, "(i BM) N -> (i BM) N", grid="i").bind(BM=8)
    x = jnp.ones((16, 128), jnp.float32)
    for _ in range(2):
        assert (launch(x) == 2).all()
        jax.make_jaxpr(lambda x: launch(x))(x)
        jax.clear_caches()
    assert judged() == 1
    launch(jnp.ones((32, 128), jnp.float32))
    assert judged() == 2
    with jax.default_matmul_precision("highest"):
        launch(x)
    assert judged() == 3
    launch.bind(BM=16)(x)
    assert judged() == 4


def test_unchecked_traces_pass_nothing(judged):
    launch = tp.launch(double, "(i BM) N -> (i BM) N", grid="i").bind(BM=8)
    x = jnp.ones((16, 128), jnp.float32)
    with checks.left_to_the_compiler():
        launch(x)
    assert judged() == 0
    launch(x)
    assert judged() == 1


def test_what_was_refused_is_refused_again():
    launch = tp.launch(reads_hbm, "M N -> M N").bind()
    x = jnp.ones((8, 128), jnp.float32)
    for _ in range(2):
        with pytest.raises(tp.PlacementError, match="load-from-hbm"):
            launch(x)


def test_a_size_of_another_type_is_looked_at():
    launch = tp.launch(double, "(i BM) N -> (i BM) N", grid="i")
    x = jnp.ones((16, 128), jnp.float32)
    launch(x, BM=8)
    with pytest.raises(Exception, match="whole number"):
        launch(x, BM=8.0)
