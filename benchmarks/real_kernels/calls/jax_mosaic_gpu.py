"""JAX's own Mosaic GPU kernels, for Hopper and Blackwell."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from benchmarks.real_kernels.entry import BLACKWELL, HOPPER, Built, S, bf16, call, f16, gradients, i8, i32

_LEFT, _RIGHT = S(4096, 4096, dtype=f16), S(4096, 8192, dtype=f16)
_SIZES = S(16, dtype=i32)


def _tiles(module: Any, **more: Any) -> Any:
    """A tuning config of 128 x 128 x 64 tiles and four steps in flight, unless ``more`` says otherwise."""
    usual = {"tile_m": 128, "tile_n": 128, "tile_k": 64, "max_concurrent_steps": 4}
    return module.TuningConfig(**(usual | more))


@call("jax/hopper_matmul_mgpu/matmul", HOPPER + BLACKWELL)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as hopper

    config = _tiles(hopper, grid_tile_width=8)
    return lambda a, b: hopper.matmul(a, b, None, config=config), (_LEFT, _RIGHT)


@call("jax/hopper_matmul_mgpu/matmul#wgM_256x128_cluster", HOPPER)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as hopper

    m, n = hopper.MatmulDimension.M, hopper.MatmulDimension.N
    config = _tiles(hopper, grid_minor_dim=m, grid_tile_width=4, wg_dimension=m, cluster_dimension=n)
    args = (S(2048, 2048), S(2048, 4096), S(2048, 4096))
    return lambda a, b, c: hopper.matmul(a, b, c, config=config), args


@call("jax/hopper_matmul_mgpu/matmul#smem_over", HOPPER)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as hopper

    config = _tiles(hopper, tile_m=256, wg_dimension=hopper.MatmulDimension.M)
    return lambda a, b: hopper.matmul(a, b, None, config=config), (_LEFT, _RIGHT)


@call("jax/hopper_mixed_type_matmul_mgpu/mixed_matmul_kernel", HOPPER)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu import hopper_mixed_type_matmul_mgpu as hopper

    config = _tiles(hopper, grid_tile_width=8)
    args = (S(4096, 4096, dtype=i8), S(4096, 8192))
    return lambda a, b: hopper.mixed_matmul_kernel(a, b, out_dtype=bf16, config=config), args


@call("jax/blackwell_matmul_mgpu/matmul_kernel", BLACKWELL + HOPPER)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu import blackwell_matmul_mgpu as blackwell

    config = _tiles(blackwell, collective=False, epilogue_tile_n=32, grid_tile_width=4)
    return lambda a, b: blackwell.matmul_kernel(a, b, config=config), (_LEFT, _RIGHT)


@call("jax/blackwell_matmul_mgpu/matmul_kernel#collective", BLACKWELL)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu import blackwell_matmul_mgpu as blackwell

    steps = {"max_concurrent_steps": 6, "grid_tile_width": 8}
    config = _tiles(blackwell, collective=True, epilogue_tile_n=32, **steps)
    return lambda a, b: blackwell.matmul_kernel(a, b, config=config), (_LEFT, _RIGHT)


@call("jax/blackwell_ragged_dot_mgpu/ragged_dot_kernel", BLACKWELL)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu import blackwell_matmul_mgpu, blackwell_ragged_dot_mgpu

    minor = blackwell_matmul_mgpu.MatmulDimension.N
    steps = {"max_concurrent_steps": 6, "grid_tile_width": 8}
    config = _tiles(blackwell_ragged_dot_mgpu, grid_minor_dim=minor, collective=True, **steps)
    args = (S(16 * 1024, 2048, dtype=f16), S(16, 2048, 16 * 1024, dtype=f16), _SIZES)
    return lambda a, b, sizes: blackwell_ragged_dot_mgpu.ragged_dot_kernel(a, b, sizes, config=config), args


def _ragged(a: Any, b: Any, **more: Any) -> Built:
    from jax.experimental.pallas.ops.gpu.ragged_dot_mgpu import ragged_dot

    usual = {"block_m": 128, "block_n": 128, "block_k": 64, "max_concurrent_steps": 4, "grid_block_n": 2}
    return lambda a, b, sizes: ragged_dot(a, b, group_sizes=sizes, **(usual | more)), (a, b, _SIZES)


@call("jax/ragged_dot_mgpu/ragged_dot", HOPPER)
def _() -> Built:
    return _ragged(S(16 * 1024, 2048, dtype=f16), S(16, 2048, 16 * 1024, dtype=f16))


@call("jax/ragged_dot_mgpu/ragged_dot#transpose_rhs", HOPPER)
def _() -> Built:
    sizes = {"block_m": 64, "max_concurrent_steps": 5, "grid_block_n": 4}
    more = {"transpose_rhs": True, "load_group_sizes_to_register": False}
    return _ragged(S(4096, 2048, dtype=f16), S(16, 4096, 2048, dtype=f16), **sizes, **more)


@call("jax/transposed_ragged_dot_mgpu/transposed_ragged_dot", HOPPER)
def _() -> Built:
    from jax.experimental.pallas.ops.gpu.transposed_ragged_dot_mgpu import transposed_ragged_dot

    config = {"block_m": 128, "block_n": 128, "block_k": 64, "max_concurrent_steps": 4, "grid_block_n": 2}
    rows = S(16 * 1024, 2048, dtype=f16)
    return lambda a, b, sizes: transposed_ragged_dot(a, b, group_sizes=sizes, **config), (rows, rows, _SIZES)


def _attention_module() -> Any:
    """The module; it asserts a recent CUDA, whose version nobody knows where no CUDA is installed."""
    from jax.experimental.pallas.ops.gpu import attention_mgpu

    if getattr(attention_mgpu, "cuda_versions", None) is None:

        class Versions:
            """As much of ``jaxlib.cuda._versions`` as is read."""

            @staticmethod
            def cuda_runtime_get_version() -> int:
                """CUDA 13."""
                return 13000

        attention_mgpu.cuda_versions = Versions
    return attention_mgpu


@call("jax/attention_mgpu/attention", HOPPER)
def _() -> Built:
    module = _attention_module()
    config = module.TuningConfig(block_q=64, block_kv=128, max_concurrent_steps=2, causal=True)
    return lambda q, k, v: module.attention(q, k, v, config), (S(1, 4096, 16, 128, dtype=f16),) * 3


@call("jax/attention_mgpu/attention#bwd", HOPPER)
def _() -> Built:
    module = _attention_module()
    blocks = ("block_q", "block_kv", "block_q_dkv", "block_kv_dkv", "block_q_dq", "block_kv_dq")
    config = module.TuningConfig(max_concurrent_steps=2, **dict.fromkeys(blocks, 64))
    return gradients(lambda q, k, v: module.attention(q, k, v, config), 3), (S(1, 4096, 16, 64, dtype=f16),) * 3


@call("jax/attention_mgpu/attention_with_pipeline_emitter", HOPPER)
def _() -> Built:
    module = _attention_module()
    config = module.TuningConfig(block_q=64, block_kv=128, max_concurrent_steps=2)
    args = (S(1, 4096, 16, 64, dtype=f16),) * 3
    return lambda q, k, v: module.attention_with_pipeline_emitter(q, k, v, config), args


def _mapped(fn: Any, mesh: Any, ins: tuple[Any, ...], out: Any) -> Any:
    return jax.shard_map(fn, mesh=mesh, in_specs=ins, out_specs=out, check_vma=False)


_ROWS, _COLUMNS = PartitionSpec("x", None), PartitionSpec(None, "x")


@call("jax/all_gather_mgpu/all_gather", HOPPER + BLACKWELL, mesh=8)
def _(mesh: Any) -> Built:
    from jax.experimental.pallas.ops.gpu.all_gather_mgpu import all_gather

    gather = lambda x: all_gather(x, axis_name="x", gather_dimension=0, num_blocks=32, tile_size=4096)  # noqa: E731
    array = S(16384, 16384, sharding=NamedSharding(mesh, _ROWS))
    return _mapped(gather, mesh, (_ROWS,), _ROWS), (array,)


@call("jax/reduce_scatter_mgpu/reduce_scatter", HOPPER + BLACKWELL, mesh=8)
def _(mesh: Any) -> Built:
    from jax.experimental.pallas.ops.gpu.reduce_scatter_mgpu import reduce_scatter

    def scatter(x: Any) -> Any:
        return reduce_scatter(x, axis_name="x", scatter_dimension=1, num_blocks=32, tile_size=4096)

    array = S(16384, 16384, sharding=NamedSharding(mesh, _COLUMNS))
    return _mapped(scatter, mesh, (_COLUMNS,), _COLUMNS), (array,)


@call("jax/collective_matmul_mgpu/all_gather_lhs_matmul", HOPPER, mesh=8)
def _(mesh: Any) -> Built:
    from jax.experimental.pallas.ops.gpu import collective_matmul_mgpu as collective

    config = _tiles(collective.hopper_matmul_mgpu, grid_tile_width=8)

    def product(a: Any, b: Any) -> Any:
        return collective.all_gather_lhs_matmul(a, b, "x", config=config, dtype=bf16)

    left = S(8 * 1024, 4096, sharding=NamedSharding(mesh, _ROWS))
    right = S(4096, 8 * 4096, sharding=NamedSharding(mesh, _COLUMNS))
    return _mapped(product, mesh, (_ROWS, _COLUMNS), _COLUMNS), (left, right)
