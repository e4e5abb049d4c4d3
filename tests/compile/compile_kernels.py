"""Plain Pallas kernels that the compiler tests compile, and the marks of tests that need a compiler."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec

from typedpallas.chips import get
from typedpallas.compilers import versions
from typedpallas.compilers.ambient import described_mesh

F32 = jnp.float32


def needs(machine: str) -> Any:
    """Marks of a parameter or test that asks the machine's compiler."""
    missing = versions.installed(machine) is None
    hint = f"needs the compiler: {versions.install_hint(machine)}"
    return [pytest.mark.compiler, pytest.mark.skipif(missing, reason=hint)]


def both(function: Any, machine: str) -> Any:
    for mark in needs(machine):
        function = mark(function)
    return function


def needs_tpu(function: Any) -> Any:
    return both(function, "tpu")


def needs_gpu(function: Any) -> Any:
    return both(function, "gpu")


def shape(*dims: int, dtype: Any = F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, dtype)


def scaled(block: tuple[int, int] = (8, 128), index: int | None = None) -> Any:
    """``max(2x + 1, 0)`` over row blocks; `index` makes every step read that block."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.maximum(x_ref[...] * 2.0 + 1.0, 0.0)

    def fn(x: Any) -> Any:
        in_map = (lambda i: (i, 0)) if index is None else (lambda i: (index, 0))
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            grid=(x.shape[0] // block[0],),
            in_specs=[pl.BlockSpec(block, in_map)],
            out_specs=pl.BlockSpec(block, lambda i: (i, 0)),
        )(x)

    return fn


def copied_by_dma(x: Any) -> Any:
    """``x + 1`` through a VMEM buffer and two DMAs."""

    def kernel(x_hbm: Any, o_hbm: Any, buffer: Any, semaphore: Any) -> None:
        pltpu.make_async_copy(x_hbm, buffer, semaphore).start()
        pltpu.make_async_copy(x_hbm, buffer, semaphore).wait()
        buffer[...] = buffer[...] + 1.0
        pltpu.make_async_copy(buffer, o_hbm, semaphore).start()
        pltpu.make_async_copy(buffer, o_hbm, semaphore).wait()

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[anywhere],
        out_specs=anywhere,
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA],
    )(x)


def pipelined(x: Any) -> Any:
    """``x + 1`` with ``emit_pipeline``, whose tiling depends on the chip while it is traced."""

    def kernel(x_hbm: Any, o_hbm: Any) -> None:
        def step(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...] + 1.0

        spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
        grid = (x.shape[0] // 8,)
        pltpu.emit_pipeline(step, grid=grid, in_specs=[spec], out_specs=[spec])(x_hbm, o_hbm)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(kernel, out_shape=out, in_specs=[anywhere], out_specs=anywhere)(x)


def passed_round(target: str, devices: int) -> Any:
    """Each device sends its shard to the next one."""
    mesh = described_mesh(get(target), (devices,), ("x",))

    def kernel(x_ref: Any, o_ref: Any, send: Any, receive: Any) -> None:
        following = (jax.lax.rem(jax.lax.axis_index("x") + 1, devices),)
        copy = pltpu.make_async_remote_copy(x_ref, o_ref, send, receive, device_id=following)
        copy.start()
        copy.wait()

    def shard(x: Any) -> Any:
        anywhere = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            in_specs=[anywhere],
            out_specs=anywhere,
            scratch_shapes=[pltpu.SemaphoreType.DMA] * 2,
        )(x)

    return jax.shard_map(shard, mesh=mesh, in_specs=PartitionSpec("x"), out_specs=PartitionSpec("x"), check_vma=False)


def direct_gmem(x: Any) -> Any:
    """``x + 1`` in Mosaic GPU, straight from global memory: legal on every chip from Ampere on."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + 1.0

    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def pipelined_gpu(x: Any) -> Any:
    """``x + 1`` in Mosaic GPU with an output pipeline: Hopper and later."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        def step(_: Any, x_block: Any, o_block: Any) -> None:
            o_block[...] = x_block[...] + 1.0

        spec = plgpu.BlockSpec((64, 128), lambda i: (i, 0))
        grid = (x.shape[0] // 64,)
        plgpu.emit_pipeline(step, grid=grid, in_specs=[spec], out_specs=[spec])(x_ref, o_ref)

    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return plgpu.kernel(kernel, out_type=out, grid=(1,), grid_names=("g",))(x)


def too_much_shared_memory(x: Any) -> Any:
    """A Triton product of two 512 x 512 tiles."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.dot(x_ref[...], x_ref[...], preferred_element_type=F32)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, F32))(x)


def own_mistake(x: Any) -> Any:
    raise TypeError("the user's own")
