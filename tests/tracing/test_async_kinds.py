"""Mosaic GPU kernels that look wrong and are right, or the other way round: one for each kind that was met."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp

BLOCK = jax.ShapeDtypeStruct((64, 64), jnp.float32)
SMEM, BARRIER, TENSOR = plgpu.SMEM((64, 64), jnp.float32), plgpu.Barrier(), plgpu.Barrier(orders_tensor_core=True)
LEFT, RIGHT, ACC = (128, 64), (64, 128), (128, 128)


def launch(body: Callable[..., None], *scratch: Any, threads: int = 1, out: Any = BLOCK) -> Callable[..., Any]:
    """The kernel as a function of its operands."""

    def run(*arrays: Any) -> Any:
        many = {"num_threads": threads, "thread_name": "t"} if threads > 1 else {}
        return plgpu.kernel(body, out_type=out, scratch_types=list(scratch), **many)(*arrays)

    return run


def said(run: Callable[..., Any], *args: Any, target: str = "h100") -> list[tuple[str, str]]:
    """Rules and verdicts, in order."""
    return [(item.rule, item.verdict) for item in tp.check(run, *args, target=target).diagnostics]


def leave(ref: Any, out: Any) -> None:
    """Copy a buffer out, committed and awaited."""
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(ref, out)
    plgpu.wait_smem_to_gmem(0)


def test_warpgroups_that_do_the_same_work_may_store_the_same() -> None:
    def body(x: Any, out: Any, buffer: Any) -> None:
        buffer[...] = jnp.full((64, 64), 1.0, jnp.float32)
        leave(buffer, out)

    assert said(launch(body, SMEM, threads=2), BLOCK) == []


def test_a_warpgroup_waits_for_the_copies_of_its_warps() -> None:
    def body(x: Any, out: Any, buffer: Any, done: Any) -> None:
        plgpu.copy_gmem_to_smem(x, buffer, done)
        plgpu.barrier_wait(done)

        @plgpu.warp_map
        def _(warp: Any) -> None:
            pl.when(warp == 0)(lambda: plgpu.copy_smem_to_gmem(buffer, out))

        plgpu.wait_smem_to_gmem(0)

    assert said(launch(body, SMEM, BARRIER), BLOCK) == []


@pytest.mark.parametrize("slots", [1, 2])
def test_a_further_product_covers_the_one_before_where_one_warpgroup_does_all(slots: int) -> None:
    """JAX's ragged product has no wait at all, and an H200 computes it right; with one slot it computes garbage."""
    tiled = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))

    def body(x: Any, out: Any, buffers: Any, filled: Any, result: Any) -> None:
        def fetch(step: Any) -> None:
            slot = lax.rem(step, slots)
            plgpu.copy_gmem_to_smem(x.at[step], buffers.at[slot], filled.at[slot])

        def inner(acc: Any) -> Any:
            fetch(0)

            @pl.loop(0, 6)
            def _(step: Any) -> None:
                slot = lax.rem(step, slots)
                plgpu.barrier_wait(filled.at[slot])
                plgpu.wgmma(acc, buffers.at[slot], buffers.at[slot])
                pl.when(step < 5)(lambda: fetch(step + 1))

            return acc[...]

        result[...] = pl.run_scoped(inner, plgpu.ACC((64, 64), jnp.float32))
        leave(result, out)

    scratch = plgpu.SMEM((slots, 64, 64), jnp.float16, transforms=tiled), plgpu.Barrier(num_barriers=slots), SMEM
    found = said(launch(body, *scratch), jax.ShapeDtypeStruct((6, 64, 64), jnp.float16))
    assert found == ([] if slots == 2 else [("product-in-flight", "refuted")])


@pytest.mark.parametrize("handed_on", [False, True])
def test_an_uncommitted_store_is_certainly_wrong_only_for_its_own_warpgroup(handed_on: bool) -> None:
    def body(x: Any, out: Any, buffer: Any, ready: Any) -> None:
        thread = lax.axis_index("t")

        @pl.when(thread == 0)
        def _() -> None:
            buffer[...] = jnp.full((64, 64), 1.0, jnp.float32)
            plgpu.barrier_arrive(ready)

        @pl.when(thread == int(handed_on))
        def _() -> None:
            plgpu.barrier_wait(ready)
            plgpu.copy_smem_to_gmem(buffer, out)
            plgpu.wait_smem_to_gmem(0)

    found = said(launch(body, SMEM, BARRIER, threads=2), BLOCK)
    assert found == [("store-not-committed", "open" if handed_on else "refuted")]


def test_a_kernel_that_ends_before_its_copies_is_left_open() -> None:
    def body(x: Any, out: Any, buffer: Any, done: Any) -> None:
        plgpu.copy_gmem_to_smem(x, buffer, done)
        plgpu.barrier_wait(done)
        plgpu.copy_smem_to_gmem(buffer, out)

    assert said(launch(body, SMEM, BARRIER), BLOCK) == [("copy-not-waited", "open")]


@pytest.mark.parametrize("ordered", [False, True])
def test_products_of_two_threads_end_in_order_where_they_begin_in_order(ordered: bool) -> None:
    def body(x: Any, out: Any, left: Any, right: Any, acc: Any, begun: Any, done: Any, result: Any) -> None:
        thread = lax.axis_index("t")

        @pl.when(thread == 0)
        def _() -> None:
            plgpu.tcgen05_mma(acc, left, right, accumulate=False)
            plgpu.barrier_arrive(begun)

        @pl.when(thread == 1)
        def _() -> None:
            if ordered:
                plgpu.barrier_wait(begun)
            plgpu.tcgen05_mma(acc, left, right, done)
            plgpu.barrier_wait(done)
            result[...] = plgpu.async_load_tmem(acc)
            leave(result, out)

    tiled = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))
    operands = [plgpu.SMEM(shape, jnp.float16, transforms=tiled) for shape in (LEFT, RIGHT)]
    scratch = [*operands, plgpu.TMEM(ACC, jnp.float32), TENSOR, TENSOR, plgpu.SMEM(ACC, jnp.float32)]
    run = launch(body, *scratch, threads=2, out=jax.ShapeDtypeStruct(ACC, jnp.float32))
    rules = {rule for rule, verdict in said(run, BLOCK, target="b200") if verdict == "refuted"}
    assert ("product-in-flight" in rules) != ordered


def test_inlined_code_may_wait_for_anything() -> None:
    def body(x: Any, out: Any, buffer: Any, done: Any) -> None:
        plgpu.copy_gmem_to_smem(x, buffer, done)

        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(),))
        def waits(_: Any, barrier: Any) -> None:
            barrier.wait()

        waits(done)
        plgpu.copy_smem_to_gmem(buffer, out)
        plgpu.wait_smem_to_gmem(0)

    assert said(launch(body, SMEM, BARRIER), BLOCK) == []
