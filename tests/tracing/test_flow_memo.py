"""Steps of a grid that are walked once: the same verdicts and witnesses as when each is walked, at less cost."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import copy_kernels  # noqa: F401
import flow_kernels
from flow_kernels import Kernel
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas.tracing.flow.memo import Memo
from typedpallas.tracing.flow.run import Run


@pytest.mark.parametrize("kernel", flow_kernels.KERNELS, ids=lambda kernel: kernel.name)
def test_what_is_said_does_not_change(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = tp.check(kernel.run, *kernel.args, target="tpu-v5p")
    monkeypatch.setattr(Memo, "_key", lambda self, run: None)
    walked = tp.check(kernel.run, *kernel.args, target="tpu-v5p")
    assert str(remembered) == str(walked)


def _product(steps: int) -> Any:
    """A product of matrices over a grid whose body only asks for the last axis."""

    def body(x_ref: Any, y_ref: Any, o_ref: Any, sum_ref: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _() -> None:
            o_ref[...] = sum_ref[...]

    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((128 * steps, 128 * steps), jnp.float32),
        grid=(steps, steps, steps),
        in_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
    )


@pytest.mark.parametrize("steps", [2, 4, 6])
def test_only_what_differs_is_walked(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round over the last axis, and once more its first step, which then finds a sum."""
    walks: list[tuple[Any, ...]] = []
    walk = Run.walk

    def counted(self: Run, plan: Any, frame: Any) -> None:
        if any(eqn.primitive.name == "dot_general" for eqn in plan.jaxpr.eqns):
            walks.append(self.ids)
        walk(self, plan, frame)

    monkeypatch.setattr(Run, "walk", counted)
    side = jax.ShapeDtypeStruct((128 * steps, 128 * steps), jnp.float32)
    assert tp.check(_product(steps), side, side, target="tpu-v5e").ok
    assert len(walks) == steps + 1
