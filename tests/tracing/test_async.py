"""Mosaic GPU kernels followed turn by turn: right rings pass whatever their sizes, each defect has its rule."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from ring_kernels import DEFECTS, Ring

import typedpallas as tp
from typedpallas.kernels.gpu.attention import attention
from typedpallas.kernels.gpu.matmul import matmul
from typedpallas.kernels.gpu.matmul_tuning import MatmulTuning
from typedpallas.tracing.warpgroups import kernels as async_kernels
from typedpallas.tracing.warpgroups import numbers as async_numbers

RULES = {rule for rules in DEFECTS.values() for rule in rules} | {"tensor-memory-in-use", "copy-not-waited"}


def found(run: Any, *args: Any, target: str = "h200") -> tuple[set[str], set[str]]:
    """The rules that refute something of barriers and copies, and those that leave something open."""
    said = [item for item in tp.check(run, *args, target=target).diagnostics if item.rule in RULES]
    refuted = {item.rule for item in said if item.verdict == "refuted"}
    return refuted, {item.rule for item in said} - refuted


@st.composite
def rings(draw: st.DrawFn) -> Ring:
    slots = draw(st.integers(1, 4))
    products = draw(st.booleans())
    lag = draw(st.integers(0, min(slots - 1, 2))) if products else 0
    steps = draw(st.integers(lag + 1, 11))
    return Ring(draw(st.integers(1, 3)), slots, steps, products, lag, draw(st.integers(1, 3)))


@given(rings())
@settings(max_examples=25, deadline=None)
def test_right_rings_pass(ring: Ring) -> None:
    assert found(ring.run, *ring.args) == (set(), set())


@pytest.mark.parametrize("ring", [Ring(2, 2, 4, True, 1, 2), Ring(1, 3, 5, False, 0, 2)], ids=["products", "loads"])
def test_the_rings_are_right(ring: Ring) -> None:
    random = np.random.default_rng(3)
    x, y = (jnp.asarray(random.standard_normal(arg.shape), arg.dtype) for arg in ring.args)
    # JAX 0.12 wants a commit between a load and the copy that overwrites what it read; hardware does not need it.
    with plgpu.force_gpu_interpret_mode(plgpu.InterpretGPUParams(detect_races=ring.products)):
        got = np.asarray(ring.run(x, y), np.float32)
    blocks = [np.asarray(array, np.float32).reshape(ring.steps, 64, 64) for array in (x, y)]
    want = np.einsum("kij,kjl->il", *blocks) if ring.products else (blocks[0] + blocks[1]).sum(axis=0)
    np.testing.assert_allclose(got, np.tile(want, (ring.groups, ring.tiles, 1)), rtol=2e-2, atol=5e-2)


@pytest.mark.parametrize("products", [True, False])
@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_has_its_rule(defect: str, products: bool) -> None:
    ring = Ring(groups=2, slots=2, steps=6, products=products, lag=int(products), tiles=2, defect=defect)
    refuted, _ = found(ring.run, *ring.args)
    assert refuted & DEFECTS[defect], refuted


@given(rings(), st.sampled_from([d for d in DEFECTS if d not in ("freed by one", "freed counts one less")]))
@settings(max_examples=25, deadline=None)
def test_defects_are_found_in_all_rings_that_turn_over(ring: Ring, defect: str) -> None:
    if ring.tiles * ring.steps < 3 * ring.slots or ring.slots == 1 or ring.tiles == 1:
        return
    broken = Ring(ring.groups, ring.slots, ring.steps, ring.products, ring.lag, ring.tiles, defect)
    refuted, _ = found(broken.run, *broken.args)
    assert refuted & DEFECTS[defect], (broken, refuted)


def half(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16)


@pytest.mark.parametrize("cluster", [None, "m", "n"])
@pytest.mark.parametrize("lag", [0, 2])
def test_the_typed_matmul_passes_and_is_followed_to_its_end(cluster: Any, lag: int) -> None:
    run = functools.partial(matmul, tuning=MatmulTuning(tile_n=128, cluster=cluster, lag=lag))
    report = tp.check(run, half(1024, 512), half(512, 1024), target="h200")
    assert not report.diagnostics
    assert all(each.complete for kernel in report.kernels for each in async_kernels.followed(kernel))


@pytest.mark.parametrize("causal", [False, True])
def test_the_typed_attention_is_followed_along_its_table(causal: bool) -> None:
    run = functools.partial(attention, causal=causal)
    report = tp.check(run, half(1, 2048, 4, 128), *[half(1, 2048, 2, 128)] * 2, target="h200")
    assert not report.diagnostics
    assert all(each.complete for kernel in report.kernels for each in async_kernels.followed(kernel))


def pipelined(wait: int, delay: int, x: Any, y: Any) -> Any:
    """A product through `emit_pipeline` that leaves ``wait`` products in flight, its blocks for ``delay`` steps."""
    tiled = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any, o_smem: Any) -> None:
        def product(acc: Any) -> Any:
            def step(_: Any, x_smem: Any, y_smem: Any) -> None:
                plgpu.wgmma(acc, x_smem, y_smem)
                plgpu.wgmma_wait(wait)

            plgpu.emit_pipeline(
                step,
                grid=(4,),
                in_specs=[
                    plgpu.BlockSpec((64, 64), lambda k: (0, k), transforms=tiled, delay_release=delay),
                    plgpu.BlockSpec((64, 64), lambda k: (k, 0), transforms=tiled, delay_release=delay),
                ],
                max_concurrent_steps=3,
            )(x_ref, y_ref)
            return acc[...]

        o_smem[...] = pl.run_scoped(product, plgpu.ACC((64, 64), jnp.float32))
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem, o_ref)
        plgpu.wait_smem_to_gmem(0)

    shape = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    return plgpu.kernel(kernel, out_type=shape, scratch_types=[plgpu.SMEM((64, 64), jnp.float32)])(x, y)


@pytest.mark.parametrize("wait", [0, 1, 2])
@pytest.mark.parametrize("delay", [0, 1, 2])
def test_pipelines_release_blocks_when_their_products_have_ended(wait: int, delay: int) -> None:
    refuted, undecided = found(functools.partial(pipelined, wait, delay), half(64, 256), half(256, 64))
    assert refuted == ({"product-in-flight"} if wait > delay and delay == 0 else set()) and not undecided


def data_dependent(x: Any, sizes: Any) -> Any:
    """The turns are in global memory; the last of them is not waited for."""

    def kernel(x_ref: Any, sizes_ref: Any, o_ref: Any, buffer: Any, done: Any) -> None:
        @pl.loop(0, sizes_ref[0])
        def _(_: Any) -> None:
            plgpu.copy_gmem_to_smem(x_ref, buffer, done)

        plgpu.barrier_wait(done)
        plgpu.copy_smem_to_gmem(buffer, o_ref)
        plgpu.wait_smem_to_gmem(0)

    scratch = [plgpu.SMEM((64, 64), jnp.float32), plgpu.Barrier()]
    shape = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    return plgpu.kernel(kernel, out_type=shape, scratch_types=scratch)(x, sizes)


def test_what_hangs_on_data_is_left_alone_until_it_is_given() -> None:
    x, sizes = jax.ShapeDtypeStruct((64, 64), jnp.float32), jax.ShapeDtypeStruct((1,), jnp.int32)
    assert found(data_dependent, x, sizes) == (set(), set())
    assert found(data_dependent, x, np.array([1], np.int32)) == (set(), set())
    assert found(data_dependent, x, np.array([2], np.int32))[0] == {"read-before-wait"}
    assert found(data_dependent, x, np.array([0], np.int32))[0] == {"wait-without-signal"}


OPERATIONS = {
    "add": lax.add,
    "sub": lax.sub,
    "mul": lax.mul,
    "div": lax.div,
    "rem": lax.rem,
    "max": lax.max,
    "min": lax.min,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
    "lt": lax.lt,
    "ge": lax.ge,
    "eq": lax.eq,
}


@given(st.sampled_from(sorted(OPERATIONS)), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
@settings(max_examples=150, deadline=None)
def test_scalars_are_computed_as_jax_does(name: str, a: int, b: int) -> None:
    if name in ("div", "rem") and (b == 0 or (a, b) == (-(2**31), -1)):
        return
    left, right = np.int32(a), np.int32(b)
    jaxpr = jax.make_jaxpr(OPERATIONS[name])(left, right)
    (eqn,) = getattr(jaxpr, "jaxpr", jaxpr).eqns
    compute = async_numbers.computation(eqn)
    assert compute is not None
    assert compute(dict(zip(eqn.invars, (a, b), strict=True))) == int(OPERATIONS[name](left, right))
