"""A launch refuses what the rules refute, unless a vendor's compiler is to be asked instead."""

from typing import Literal as L

import jax
import jax.numpy as jnp
import pytest

import typedpallas as tp
from typedpallas import Dim, In, Multiple, Out, f32
from typedpallas.compilers.ambient import target_context
from typedpallas.launching.checks import left_to_the_compiler
from typedpallas.tpu import VMEM


def double[BM: Multiple[L[8]], N: Dim](x: In[VMEM, f32, BM, N], out: Out[VMEM, f32, BM, N]) -> None:
    out[...] = x[...] * 2.0


LAUNCH = tp.launch(double, "(i BM) N -> (i BM) N", grid="i")
HUGE = jax.ShapeDtypeStruct((65536, 1024), jnp.float32)


def trace() -> None:
    with target_context("tpu-v4"):
        jax.make_jaxpr(lambda x: LAUNCH(x, BM=16384))(HUGE)


def test_the_check_comes_back_after_it_was_left_out() -> None:
    with left_to_the_compiler():
        trace()
    with pytest.raises(tp.PlacementError, match="vmem-overflow"):
        trace()
    with left_to_the_compiler():
        trace()


def test_what_cannot_be_laid_out_is_refused_all_the_same() -> None:
    with left_to_the_compiler(), pytest.raises(tp.PlacementError, match="missing-size"), target_context("tpu-v4"):
        jax.make_jaxpr(LAUNCH)(HUGE)
