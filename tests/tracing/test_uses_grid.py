"""Grid axes that change nothing are mentioned; those that anything may depend on are not."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp

f32 = jnp.float32
X = jax.ShapeDtypeStruct((64, 128), f32)
ROWS = pl.BlockSpec((16, 128), lambda i, j: (i, 0))


def _copied(x: Any, o: Any) -> None:
    o[...] = jnp.exp(x[...])


def _in_branches(x: Any, o: Any) -> None:
    @pl.when(pl.program_id(0) < 2)
    def _() -> None:
        o[...] = x[...]

    @pl.when(pl.program_id(0) >= 2)
    def _() -> None:
        o[...] = jnp.zeros_like(o)


def _scaled_by_the_step(x: Any, o: Any) -> None:
    o[...] = x[...] * pl.program_id(1)


def _scaled_in_a_loop(x: Any, o: Any) -> None:
    o[...] = jax.lax.fori_loop(0, 3, lambda k, sums: sums + pl.program_id(1).astype(f32), x[...])


def _repeated(x: Any, o: Any) -> None:
    o[...] = jnp.where(x[...] > 0, o[...] + x[...], x[...])


def _accumulated(x: Any, o: Any, acc: Any) -> None:
    acc[...] += x[...]
    o[...] = acc[...]


def _random(x: Any, o: Any) -> None:
    pltpu.prng_seed(3)
    o[...] = x[...] + pltpu.bitcast(pltpu.prng_random_bits((16, 128)), f32)


def _said(kernel: Any, target: str = "tpu-v5e", scratch: Any = (), **more: Any) -> list[tuple[str, str]]:
    given: dict[str, Any] = {"in_specs": [ROWS], "out_specs": ROWS, "grid": (4, 8)} | more
    run = pl.pallas_call(kernel, out_shape=X, scratch_shapes=scratch, **given)
    found = [item for item in tp.check(run, X, target=target).diagnostics if item.rule == "grid-axis-unused"]
    return [(item.verdict, item.message.split(":")[0]) for item in found]


@pytest.mark.parametrize("kernel", [_copied, _in_branches])
@pytest.mark.parametrize("target", ["tpu-v5e", "h100"])
def test_an_axis_that_nothing_reads_is_mentioned_and_never_refused(kernel: Any, target: str) -> None:
    assert [verdict for verdict, _ in _said(kernel, target)] == ["open"]


@pytest.mark.parametrize("kernel", [_scaled_by_the_step, _scaled_in_a_loop, _repeated, _random])
def test_an_axis_that_may_matter_is_not(kernel: Any) -> None:
    assert _said(kernel) == []


def test_a_kernel_that_keeps_something_is_left_alone() -> None:
    assert _said(_accumulated, scratch=[pltpu.VMEM((16, 128), f32)]) == []
    assert _said(_copied, input_output_aliases={0: 0}) == []


def test_axes_of_maps_of_one_step_and_of_vmap_are_left_alone() -> None:
    whole = pl.BlockSpec((64, 128), lambda i, j: (0, 0))
    assert _said(_copied, grid=(4, 1)) == []
    assert len(_said(_copied, in_specs=[whole], out_specs=whole)) == 2
    assert _said(_copied, in_specs=[pl.BlockSpec((16, 128), lambda i, j: ((i + j) % 4, 0))]) == []
    run = pl.pallas_call(_copied, out_shape=X)
    many = jax.ShapeDtypeStruct((5, 64, 128), f32)
    assert not tp.check(jax.vmap(run), many, target="tpu-v5e").diagnostics


def _own_rows(x: Any, o: Any) -> None:
    rows = pl.ds(pl.program_id(0) * 16, 16)
    o[rows, :] = x[rows, :] * 2.0


def _own_rows_by_the_step(x: Any, o: Any) -> None:
    rows = pl.ds(pl.program_id(0) * 16, 16)
    o[rows, :] = x[rows, :] * pl.program_id(1)


@pytest.mark.parametrize("kernel", [_copied, _own_rows])
def test_programs_that_store_the_same_do_not_race(kernel: Any) -> None:
    """The values differ between blocks, or rows, of one program each; not between the programs that share them."""
    blocks = {"in_specs": [ROWS], "out_specs": ROWS} if kernel is _copied else {}
    run = pl.pallas_call(kernel, out_shape=X, grid=(4, 8), **blocks)
    assert tp.check(run, X, target="h100").ok


@pytest.mark.parametrize("kernel", [_scaled_by_the_step, _own_rows_by_the_step])
def test_programs_that_share_what_they_store_to_race(kernel: Any) -> None:
    blocks = {"in_specs": [ROWS], "out_specs": ROWS} if kernel is _scaled_by_the_step else {}
    run = pl.pallas_call(kernel, out_shape=X, grid=(4, 8), **blocks)
    assert {item.rule for item in tp.check(run, X, target="h100").diagnostics} == {"write-race"}
