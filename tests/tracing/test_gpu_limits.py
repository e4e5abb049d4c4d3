"""Mosaic GPU's other limits against the compiler: vectors in registers, copies before Hopper, groups of barriers."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from gpu_asked import Case, Copy, Product, flagged, refused
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

S = jax.ShapeDtypeStruct
f32, f16, i8 = jnp.float32, jnp.float16, jnp.int8


def _loaded(shape: tuple[int, ...]) -> Case:
    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...] * 2.0

    return plgpu.kernel(kernel, out_type=S(shape, f32)), (S(shape, f32),)


@pytest.mark.compiler
@pytest.mark.parametrize(
    "shape", [(), (1,), (64,), (100,), (128,), (192,), (384,), (8, 8), (8, 16), (64, 3), (4, 4, 8)]
)
def test_a_vector_that_threads_cannot_share_out_is_refused(shape: tuple[int, ...]) -> None:
    case = _loaded(shape)
    assert ("uneven-vector" in flagged(case, "h100")) == bool(refused(case, "h100"))


@pytest.mark.compiler
def test_a_layout_of_the_kernels_own_takes_other_vectors() -> None:
    def kernel(x: Any, y: Any, o: Any, tile: Any) -> None:
        column = plgpu.load(y, layout=plgpu.Layout.WGMMA.reduce(1))
        rows = plgpu.load(x, layout=plgpu.Layout.WGMMA, optimized=False)
        tile[...] = rows + lax.broadcast_in_dim(column, (64, 64), [0])
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(tile, o)
        plgpu.wait_smem_to_gmem(0)

    run = plgpu.kernel(kernel, out_type=S((64, 64), f32), scratch_types=[plgpu.SMEM((64, 64), f32)])
    case = run, (S((64, 64), f32), S((64,), f32))
    assert "uneven-vector" not in flagged(case, "h100")


def _by_threads(array: tuple[int, ...], box: tuple[int, ...], dtype: Any, promise: bool = True) -> Case:
    def kernel(x: Any, o: Any, buffer: Any) -> None:
        part = tuple(pl.ds(0, size) for size in box)
        mode = plgpu.OOBFillMode.PROMISE_IN_BOUNDS if promise else None
        plgpu.copy_gmem_to_smem(x.at[part], buffer, oob_mode=mode)
        plgpu.wait_gmem_to_smem(0)
        o[...] = jnp.zeros((128,), f32)

    run = plgpu.kernel(kernel, out_type=S((128,), f32), scratch_types=[plgpu.SMEM(box, dtype)])
    return run, (S(array, dtype),)


@pytest.mark.compiler
@pytest.mark.parametrize(
    "copy",
    [
        ((128,), (128,), f16),
        ((256,), (256,), f16),
        ((384,), (384,), f16),
        ((640,), (640,), f16),
        ((768,), (768,), f16),
        ((256,), (256,), i8),
        ((512,), (512,), i8),
        ((100,), (100,), f32),
        ((384,), (384,), f32),
        ((64, 64), (32, 64), f32),
    ],
    ids=str,
)
def test_copies_of_threads_before_hopper(copy: tuple[Any, Any, Any]) -> None:
    case = _by_threads(*copy)
    assert ("copy-not-on-target" in flagged(case, "a100")) == bool(refused(case, "a100"))
    assert "copy-not-on-target" in flagged(case, "h100"), "there it arrives at a barrier"


def test_a_part_of_the_columns_is_refused_though_the_compiler_takes_it() -> None:
    """The lowered module walks the array as if the part were contiguous."""
    assert "copy-not-on-target" in flagged(_by_threads((64, 128), (64, 64), f32), "a100")
    assert "copy-not-on-target" in flagged(_by_threads((64, 64), (64, 64), f32, promise=False), "a100")


@pytest.mark.parametrize("target", ["a100", "t4"])
def test_the_copy_engine_is_not_there_before_hopper(target: str) -> None:
    assert "copy-not-on-target" in flagged(Copy((64, 64)).case(), target)
    assert "copy-not-on-target" not in flagged(Product().case(), "h100")


@pytest.mark.compiler
@pytest.mark.parametrize("count", [32, 33])
def test_a_group_has_32_barriers(count: int) -> None:
    def kernel(o: Any, barriers: Any) -> None:
        o[...] = jnp.zeros((128,), f32)

    barrier = plgpu.Barrier(num_barriers=count)
    case = plgpu.kernel(kernel, out_type=S((128,), f32), scratch_types=[barrier]), ()
    assert ("too-many-barriers" in flagged(case, "h100")) == bool(refused(case, "h100")) == (count > 32)


@pytest.mark.compiler
def test_a_plain_call_with_mosaic_gpus_parameters_is_refused() -> None:
    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...]

    run = pl.pallas_call(kernel, out_shape=S((128,), f32), compiler_params=plgpu.CompilerParams())
    case = run, (S((128,), f32),)
    assert refused(case, "h100") and "backend-not-on-target" in flagged(case, "h100")
