"""Kernels are found wherever a function hides them, and their bodies read through every kind of control flow."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import typedpallas as tp
from typedpallas import gpu, tpu
from typedpallas.compilers.ambient import target_context
from typedpallas.events import Access, Context
from typedpallas.tracing import body, jaxapi
from typedpallas.tracing.walk import KernelCall, kernels

HERE = Path(__file__).name
X = jax.ShapeDtypeStruct((8, 128), jnp.float32)


def doubling(x, o):
    o[...] = x[...] * 2.0


def double(x: jax.Array) -> jax.Array:
    return pl.pallas_call(doubling, out_shape=X)(x)


@jax.custom_vjp
def _custom(x):
    return double(x)


_custom.defvjp(lambda x: (double(x), None), lambda _, g: (double(g),))


def _while(x):
    return jax.lax.while_loop(lambda carry: jnp.sum(carry) < 10, double, x)


def _shard_mapped(x):
    mesh = AbstractMesh((1,), ("d",), axis_types=(AxisType.Auto,))
    return jax.shard_map(double, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)(x)


PLACES: dict[str, tuple[Callable[..., Any], int]] = {
    "plain": (double, 1),
    "jit": (jax.jit(double), 1),
    "nested jit": (jax.jit(lambda x: jax.jit(double)(x) + jax.jit(double)(x)), 2),
    "vmap": (lambda x: jax.vmap(double)(x[None])[0], 1),
    "scan": (lambda x: jax.lax.scan(lambda c, _: (double(c), None), x, None, length=3)[0], 1),
    "fori_loop": (lambda x: jax.lax.fori_loop(0, 3, lambda _, c: double(c), x), 1),
    "while": (_while, 1),
    "cond": (lambda x: jax.lax.cond(x[0, 0] > 0, double, lambda y: double(double(y)), x), 3),
    "shard_map": (_shard_mapped, 1),
    "custom_vjp": (_custom, 1),
    "grad of custom_vjp": (lambda x: jax.grad(lambda y: jnp.sum(_custom(y)))(x), 2),
    "remat": (jax.checkpoint(double), 1),
    "none": (lambda x: x + 1, 0),
}


@pytest.mark.parametrize("name", PLACES)
def test_every_kernel_is_found(name: str) -> None:
    fn, count = PLACES[name]
    report = tp.check(fn, X)
    assert len(report.kernels) == count
    assert report.ok
    assert {kernel.name for kernel in report.kernels} <= {"doubling"}


def test_arguments_may_be_pytrees() -> None:
    report = tp.check(lambda parts: double(parts["x"]) + parts["y"][0], {"x": X, "y": (X,)})
    assert len(report.kernels) == 1 and report.ok


def _only(fn: Callable[..., Any], *args: Any, backend: Any = None) -> KernelCall:
    (kernel,) = kernels(jaxapi.trace(fn, args), backend)
    return kernel


def test_a_kernel_knows_its_operands_and_line() -> None:
    def kernel(table, x, o, acc, done):
        o[...] = x[...] + acc[...]

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(2, 3),
        in_specs=[pl.BlockSpec((None, 8, 128), lambda i, j, t: (i, 0, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, j, t: (0, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA],
    )

    def run(table, x):
        return pl.pallas_call(kernel, grid_spec=grid, out_shape=X)(table, x)

    found = _only(run, jax.ShapeDtypeStruct((4,), jnp.int32), jax.ShapeDtypeStruct((2, 8, 128), jnp.float32))
    assert [op.name for op in found.operands] == ["table", "x", "o", "acc", "done"]
    assert [op.role for op in found.operands] == ["prefetch", "in", "out", "scratch", "scratch"]
    assert found.grid == (2, 3)
    assert found.backend == "mosaic_tpu"
    assert [op.space for op in found.operands] == [tpu.SMEM, tpu.VMEM, tpu.VMEM, tpu.VMEM, tpu.DMA]
    x = found.operands[1]
    assert (x.block, x.array, x.shape, x.dtype) == (("squeezed", 8, 128), (2, 8, 128), (8, 128), "float32")
    assert Path(found.place.file).name == HERE and found.place.line == run.__code__.co_firstlineno + 1


@pytest.mark.parametrize(
    "params, target, backend",
    [
        (None, None, None),
        (pltpu.CompilerParams(), None, "mosaic_tpu"),
        (plgpu.CompilerParams(), None, "mosaic_gpu"),
    ],
)
def test_the_backend_is_read_off_the_parameters(params: Any, target: Any, backend: Any) -> None:
    fn = pl.pallas_call(doubling, out_shape=X, compiler_params=params)
    assert _only(fn, X, backend=target).backend == backend


def test_mesh_kernels_are_found_with_their_spaces() -> None:
    def kernel(x, o, buffer):
        buffer[...] = x[...]
        o[...] = buffer[...]

    fn = plgpu.kernel(kernel, out_type=X, scratch_types=[plgpu.SMEM((8, 128), jnp.float32)])
    found = _only(jax.jit(fn), X)
    assert found.backend == "mosaic_gpu"
    assert [op.role for op in found.operands] == ["in", "out"]
    touched = [(a.op, a.ref.space) for a in _accesses(fn, X)]
    assert touched == [("load", gpu.GMEM), ("store", gpu.SMEM), ("load", gpu.SMEM), ("store", gpu.GMEM)]


def _accesses(fn: Callable[..., Any], *args: Any, backend: Any = None) -> list[Access]:
    kernel = _only(fn, *args, backend=backend)
    events = (located.event for located in body.events(kernel, Context(backend=kernel.backend)))
    return [event for event in events if isinstance(event, Access)]


def _sizes(shape: Any) -> tuple[int, ...]:
    return tuple(dim.const for dim in shape)


def test_accesses_are_followed_through_control_flow() -> None:
    def kernel(x, o):
        def scoped(a, b):
            a[...] = x[...]

            @pl.when(a[0, 0] > 0)
            def _():
                b[...] = a[...]

            def step(i, total):
                o[pl.ds(i, 1), :] = b[pl.ds(i, 1), :]
                return total

            jax.lax.fori_loop(0, 8, step, 0)

            def further(carry):
                o.at[pl.ds(0, 4)].at[1][...] = x[0]
                return carry + 1

            jax.lax.while_loop(lambda carry: carry < x[0, 0], further, 0.0)

        pl.run_scoped(scoped, pltpu.VMEM((8, 128), jnp.float32), pltpu.VMEM((8, 128), jnp.float32))

    with target_context("tpu-v5e"):
        found = _accesses(pl.pallas_call(kernel, out_shape=X), X, backend="mosaic_tpu")
    assert [(a.op, a.ref.name, _sizes(a.moved)) for a in found] == [
        ("load", "x", (8, 128)),
        ("store", "a", (8, 128)),
        ("load", "a", ()),
        ("load", "a", (8, 128)),
        ("store", "b", (8, 128)),
        ("load", "b", (1, 128)),
        ("store", "o", (1, 128)),
        ("load", "x", ()),
        ("load", "x", (128,)),
        ("store", "o", (128,)),
    ]
    assert {a.ref.space for a in found} == {tpu.VMEM}


_index = st.one_of(
    st.integers(0, 7).map(lambda i: (i, None)),
    st.tuples(st.integers(0, 4), st.integers(1, 3)).map(lambda p: (slice(p[0], p[0] + p[1]), p[1])),
    st.tuples(st.integers(0, 4), st.integers(1, 3)).map(lambda p: (pl.ds(*p), p[1])),
    st.tuples(st.integers(0, 3), st.integers(1, 2)).map(lambda p: (pl.ds(p[0], p[1], stride=2), p[1])),
    st.just((slice(None), 8)),
)


@settings(max_examples=40, deadline=None)
@given(st.tuples(_index, _index, _index))
def test_the_moved_shape_is_what_the_index_selects(index: Any) -> None:
    parts = tuple(part for part, _ in index)
    selected = tuple(size for _, size in index if size is not None)

    def kernel(x, o):
        o[...] = jnp.broadcast_to(jnp.sum(x[parts]), (8, 128))

    cube = jax.ShapeDtypeStruct((8, 8, 8), jnp.float32)
    load, store = _accesses(pl.pallas_call(kernel, out_shape=X), cube)
    assert (load.op, _sizes(load.moved), store.op) == ("load", selected, "store")


def test_dead_code_is_not_judged() -> None:
    """Pallas drops unused loads before it lowers, so they are no mistake."""

    def kernel(x, o):
        _ = x[...] * 2.0
        o[...] = jnp.zeros_like(o)

    fn = pl.pallas_call(kernel, out_shape=X, in_specs=[pl.BlockSpec(memory_space=pltpu.HBM)])
    assert tp.check(fn, X, target="tpu-v5e").ok


def test_a_view_of_another_type_is_stored_to_in_that_type() -> None:
    def kernel(x, o):
        o.bitcast(jnp.uint32)[...] = x.bitcast(jnp.uint32)[...]

    half = jax.ShapeDtypeStruct((16, 128), jnp.bfloat16)
    fn = pl.pallas_call(kernel, out_shape=half)
    load, store = _accesses(fn, half, backend="mosaic_tpu")
    assert (load.ref.dtype, store.ref.dtype, store.value_dtype) == ("uint32", "uint32", "uint32")
    assert _sizes(store.moved) == (8, 128)
    assert tp.check(fn, half, target="tpu-v5e").ok
