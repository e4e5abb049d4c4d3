"""What the walk through a kernel's memory leaves out, since it makes no difference: nothing is missed by that."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas.tracing.flow import cells
from typedpallas.tracing.flow import garbage as flow_garbage
from typedpallas.tracing.flow.calm import Finder
from typedpallas.tracing.flow.masks import Facts
from typedpallas.tracing.flow.run import Run

F32 = jnp.float32
X = jax.ShapeDtypeStruct((8, 128), F32)

OPERATIONS: tuple[tuple[Callable[..., Any], int], ...] = (
    (lambda x, y: x + y, 2),
    (lambda x, y: x * y, 2),
    (lambda x, y: jnp.maximum(x, y), 2),
    (lambda x, y: x < y, 2),
    (lambda x, y: x @ y.T, 2),
    (jnp.exp, 1),
    (lambda x: x.astype(jnp.int32), 1),
    (lambda x: x.sum(axis=0), 1),
    (lambda x: x.max(axis=1), 1),
    (lambda x: x.argmax(axis=1), 1),
    (lambda x: jnp.cumsum(x, axis=1), 1),
    (lambda x: x.T, 1),
    (lambda x: x[:4], 1),
    (lambda x: x.reshape(4, 256), 1),
)


@given(st.sampled_from(OPERATIONS), st.sampled_from(((1,), (0, 1), (1, 0), (1, 1))))
def test_plain_doubt_stays_what_it_is(case: tuple[Callable[..., Any], int], held: tuple[int, ...]) -> None:
    function, count = case
    parts = [*held, cells.MAYBE][:count] if cells.MAYBE in held[:count] else [cells.MAYBE] * count
    for eqn in jax.make_jaxpr(function)(*[X] * count).eqns:
        if eqn.primitive.name in flow_garbage.STAYS_DOUBTFUL and len(eqn.invars) == len(parts):
            assert flow_garbage.through(eqn, parts, Facts({})) == cells.MAYBE


def _calm(body: Callable[..., None]) -> list[bool]:
    """Whether each call, branch or loop at the top of a kernel need not be walked where all memory is meant."""

    def kernel(x_ref: Any, o_ref: Any, acc: Any, sem: Any) -> None:
        body(x_ref, o_ref, acc, sem)

    def run(x: Any) -> Any:
        scratch = [pltpu.VMEM((8, 128), F32), pltpu.SemaphoreType.DMA]
        return pl.pallas_call(kernel, out_shape=X, scratch_shapes=scratch)(x)

    (call,) = jax.make_jaxpr(run)(X).eqns
    inside = call.params["jaxpr"].eqns
    return [Finder().of(eqn) is not None for eqn in inside if eqn.primitive.name in ("cond", "scan", "while", "jit")]


def _branch(x_ref: Any, o_ref: Any, acc: Any, sem: Any) -> None:
    @pl.when(x_ref[0, 0] > 0)
    def _() -> None:
        acc[...] += x_ref[...]


def _copying(x_ref: Any, o_ref: Any, acc: Any, sem: Any) -> None:
    @pl.when(x_ref[0, 0] > 0)
    def _() -> None:
        pltpu.make_async_copy(x_ref, acc, sem).start()


def _scoped(x_ref: Any, o_ref: Any, acc: Any, sem: Any) -> None:
    @pl.when(x_ref[0, 0] > 0)
    def _() -> None:
        def inner(part: Any) -> None:
            acc[...] = part[...]

        pl.run_scoped(inner, pltpu.VMEM((8, 128), F32))


@pytest.mark.parametrize(("body", "expected"), [(_branch, [True]), (_copying, [False]), (_scoped, [False])])
def test_only_what_loads_stores_and_computes_is_calm(body: Callable[..., None], expected: list[bool]) -> None:
    assert _calm(body) == expected


def _grid(kernel: Callable[..., None], steps: int) -> tuple[Callable[[Any], Any], Any]:
    shape = jax.ShapeDtypeStruct((8 * steps, 128), F32)
    spec = pl.BlockSpec((8, 128), lambda i, j: (i, 0))

    def run(x: Any) -> Any:
        return pl.pallas_call(
            kernel,
            out_shape=shape,
            grid=(steps, 4),
            in_specs=[spec],
            out_specs=spec,
            scratch_shapes=[pltpu.VMEM((8, 128), F32)],
        )(x)

    return run, shape


def _summed(x_ref: Any, o_ref: Any, acc: Any) -> None:
    @pl.when(pl.program_id(1) == 0)
    def _() -> None:
        acc[...] = jnp.zeros_like(acc)

    acc[...] += x_ref[...]

    @pl.when(pl.program_id(1) == 3)
    def _() -> None:
        o_ref[...] = acc[...]


def _never_zeroed(x_ref: Any, o_ref: Any, acc: Any) -> None:
    acc[...] += x_ref[...]

    @pl.when(pl.program_id(1) == 3)
    def _() -> None:
        o_ref[...] = acc[...]


def _first_row_only(x_ref: Any, o_ref: Any, acc: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o_ref[...] = x_ref[...]


def _walked(run: Callable[[Any], Any], shape: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[int, set[str]]:
    """How many jaxprs were walked, and the rules that refute."""
    walks, walk = 0, Run.walk

    def counted(self: Run, *given: Any) -> None:
        nonlocal walks
        walks += 1
        walk(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Run, "walk", counted)
        report = tp.check(run, shape, target="tpu-v5e")
    return walks, {item.rule for item in report.diagnostics if item.verdict == "refuted"}


def test_steps_that_do_the_same_are_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (_walked(*_grid(_summed, steps), monkeypatch) for steps in (4, 60))
    assert few == many and not few[1]


@pytest.mark.parametrize("steps", [4, 60])
def test_what_differs_along_an_axis_is_still_found(steps: int) -> None:
    for kernel, rule in ((_never_zeroed, "read-before-write"), (_first_row_only, "result-never-stored")):
        run, shape = _grid(kernel, steps)
        report = tp.check(run, shape, target="tpu-v5e")
        assert [item.rule for item in report.diagnostics] == [rule], kernel


def test_an_index_map_of_ids_is_not_walked() -> None:
    run, shape = _grid(_summed, 70_000)
    assert tp.check(run, shape, target="tpu-v5e").ok
    assert np.prod(shape.shape) > cells.MOST
