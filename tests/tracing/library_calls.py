"""Calls of kernels that nobody here wrote, with realistic shapes: `jax.experimental.pallas.ops` of the installed JAX.

Each was given to the vendor's compiler of every target named, which took it.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

TPUS = ("tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-7x")
GPUS = ("a100", "h100", "b200")
f32, f16, bf16, i32, i8 = jnp.float32, jnp.float16, jnp.bfloat16, jnp.int32, jnp.int8

type Built = tuple[Callable[..., Any], Sequence[Any]]


@dataclass(frozen=True)
class Call:
    """A function of the library, how to call it, and where it compiles."""

    name: str
    build: Callable[[], Built]
    targets: tuple[str, ...]


CALLS: list[Call] = []


def call(*targets: str) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """Enter a call under its builder's name."""

    def enter(build: Callable[[], Built]) -> Callable[[], Built]:
        CALLS.append(Call(build.__name__, build, targets))
        return build

    return enter


def S(*shape: int, dtype: Any = bf16) -> jax.ShapeDtypeStruct:
    """An argument's shape."""
    return jax.ShapeDtypeStruct(shape, dtype)


def _gradients(fn: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The gradients of the first ``count`` arguments, through the function's own backward kernels."""

    def loss(*args: Any) -> Any:
        return sum(jnp.sum(leaf.astype(f32)) for leaf in jax.tree.leaves(fn(*args)))

    return jax.grad(loss, argnums=tuple(range(count)))


@call(*TPUS)
def tpu_matmul() -> Built:
    from jax.experimental.pallas.ops.tpu.matmul import matmul

    return functools.partial(matmul, block_shape=(512, 256), block_k=512), (S(1024, 2048), S(2048, 1024))


@call(*TPUS)
def tpu_matmul_int8() -> Built:
    from jax.experimental.pallas.ops.tpu.matmul import matmul

    square = S(512, 512, dtype=i8)
    return functools.partial(matmul, block_shape=(256, 256), block_k=256, out_dtype=i32), (square, square)


@call(*TPUS)
def tpu_flash_attention() -> Built:
    from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

    return functools.partial(flash_attention, causal=True, sm_scale=0.1), (S(1, 4, 1024, 128),) * 3


@call(*TPUS)
def tpu_flash_attention_backward() -> Built:
    from jax.experimental.pallas.ops.tpu import flash_attention as flash

    names = (
        *("block_q", "block_k_major", "block_k", "block_q_major_dkv", "block_k_major_dkv", "block_k_dkv"),
        *("block_q_dkv", "block_k_major_dq", "block_k_dq", "block_q_dq"),
    )
    sizes = flash.BlockSizes(block_b=1, **dict.fromkeys(names, 256))

    def attend(q: Any, k: Any, v: Any, bias: Any, qs: Any, ks: Any) -> Any:
        segments = flash.SegmentIds(qs, ks)

        def forward(q: Any, k: Any, v: Any) -> Any:
            return flash.flash_attention(q, k, v, bias, segments, sm_scale=0.1, block_sizes=sizes)

        return _gradients(forward, 3)(q, k, v)

    ids = S(2, 512, dtype=i32)
    return attend, (*(S(2, 2, 512, 64),) * 3, S(2, 2, 512, 512), ids, ids)


def _splash(backward: bool) -> Built:
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    mask = masks.MultiHeadMask([masks.LocalMask((1024, 1024), (256, 256), 0) for _ in range(4)])
    sizes = splash.BlockSizes(
        block_q=512,
        block_kv=512,
        block_kv_compute=256,
        block_q_dkv=512,
        block_kv_dkv=512,
        block_kv_dkv_compute=256,
        block_q_dq=512,
        block_kv_dq=512,
    )
    attend = splash.make_splash_mha_single_device(mask=mask, block_sizes=sizes, attn_logits_soft_cap=20.0)
    heads = S(4, 1024, 128)
    fn = lambda q, k, v: attend(q, k, v)  # noqa: E731
    return (_gradients(fn, 3) if backward else fn), (heads,) * 3


@call(*TPUS)
def tpu_splash_attention() -> Built:
    return _splash(backward=False)


@call(*TPUS)
def tpu_splash_attention_backward() -> Built:
    return _splash(backward=True)


@call(*TPUS)
def tpu_paged_attention() -> Built:
    from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention_kernel as paged

    pages = S(2, 512, 16, 128, dtype=f32)
    attend = functools.partial(paged.paged_attention, pages_per_compute_block=8, inline_seq_dim=True)
    return attend, (S(8, 16, 128, dtype=f32), pages, pages, S(8, dtype=i32), S(8, 64, dtype=i32))


@call(*TPUS)
def tpu_ragged_paged_attention() -> Built:
    from jax.experimental.pallas.ops.tpu.ragged_paged_attention import ragged_paged_attention

    attend = functools.partial(
        ragged_paged_attention,
        sm_scale=0.1,
        num_kv_pages_per_block=8,
        num_queries_per_block=32,
        vmem_limit_bytes=32 << 20,
    )
    lengths, table = S(8, dtype=i32), S(8, 64, dtype=i32)
    bounds, count = S(9, dtype=i32), S(1, dtype=i32)
    return attend, (S(256, 16, 128), S(500, 32, 16, 128), lengths, table, bounds, count)


@call(*TPUS)
def tpu_grouped_matmul() -> Built:
    from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm

    product = functools.partial(gmm, preferred_element_type=bf16, tiling=(128, 128, 128), transpose_rhs=True)
    return product, (S(512, 600), S(4, 896, 600), S(4, dtype=i32))


@call(*TPUS)
def tpu_grouped_matmul_backward() -> Built:
    from jax.experimental.pallas.ops.tpu.megablox import ops

    def backward(x: Any, w: Any, sizes: Any) -> Any:
        return _gradients(lambda x, w: ops.gmm(x, w, sizes, f32, (128, 128, 128)), 2)(x, w)

    return backward, (S(1024, 512), S(8, 512, 512), S(8, dtype=i32))


@call(*TPUS)
def tpu_threefry() -> Built:
    from jax.experimental.pallas.ops.tpu.random.threefry import plthreefry_random_bits

    return lambda key: plthreefry_random_bits(key, 32, (1024, 1000)), (S(2, dtype=jnp.uint32),)


@call(*GPUS)
def triton_attention() -> Built:
    from jax.experimental.pallas.ops.gpu.attention import mha

    return lambda q, k, v: mha(q, k, v, None, causal=True), (S(2, 1024, 8, 64, dtype=f16),) * 3


@call(*GPUS)
def triton_attention_backward() -> Built:
    from jax.experimental.pallas.ops.gpu.attention import BlockSizes, mha

    sizes = BlockSizes(128, 128, 32, 32, 32, 32)

    def backward(q: Any, k: Any, v: Any, segments: Any) -> Any:
        attend = lambda q, k, v: mha(q, k, v, segments, causal=True, block_sizes=sizes)  # noqa: E731
        return _gradients(attend, 3)(q, k, v)

    return backward, (*(S(2, 512, 4, 64, dtype=f16),) * 3, S(2, 512, dtype=i32))


@call(*GPUS)
def triton_layer_norm_backward() -> Built:
    from jax.experimental.pallas.ops.gpu.layer_norm import layer_norm

    row = S(192, dtype=f32)
    return _gradients(layer_norm, 3), (S(4, 384, 192, dtype=f32), row, row)


@call(*GPUS)
def triton_rms_norm() -> Built:
    from jax.experimental.pallas.ops.gpu.rms_norm import rms_norm

    row = S(1024, dtype=f32)
    return rms_norm, (S(4, 384, 1024, dtype=f32), row, row)


@call(*GPUS)
def triton_softmax() -> Built:
    from jax.experimental.pallas.ops.gpu.softmax import softmax

    return softmax, (S(128, 1000, dtype=f32),)


@call(*GPUS)
def triton_decode_attention() -> Built:
    from jax.experimental.pallas.ops.gpu.decode_attention import gqa

    cache, ends = S(4, 2048, 8, 128, dtype=f16), S(4, dtype=i32)
    return lambda *args: gqa(*args), (S(4, 32, 128, dtype=f16), cache, cache, ends, ends)


@call(*GPUS)
def triton_paged_attention() -> Built:
    from jax.experimental.pallas.ops.gpu.paged_attention import paged_attention

    pages = S(8, 1024, 16, 128, dtype=f16)
    return paged_attention, (S(8, 32, 128, dtype=f16), pages, pages, S(8, 128, dtype=i32), S(8, dtype=i32))


@call("h100")
def hopper_matmul() -> Built:
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as hopper

    config = hopper.TuningConfig(tile_m=128, tile_n=128, tile_k=64, max_concurrent_steps=4, grid_tile_width=8)
    return lambda a, b: hopper.matmul(a, b, None, config=config), (S(4096, 4096, dtype=f16), S(4096, 8192, dtype=f16))


@call("b200")
def blackwell_matmul() -> Built:
    from jax.experimental.pallas.ops.gpu import blackwell_matmul_mgpu as blackwell

    config = blackwell.TuningConfig(
        tile_m=128,
        tile_n=128,
        tile_k=64,
        max_concurrent_steps=6,
        collective=True,
        epilogue_tile_n=32,
        grid_tile_width=8,
    )
    square = S(4096, 4096, dtype=f16)
    return lambda a, b: blackwell.matmul_kernel(a, b, config=config), (square, square)


@call("h100")
def hopper_ragged_product() -> Built:
    from jax.experimental.pallas.ops.gpu.ragged_dot_mgpu import ragged_dot

    product = functools.partial(
        ragged_dot, block_m=128, block_n=128, block_k=64, max_concurrent_steps=4, grid_block_n=2
    )
    args = (S(4096, 2048, dtype=f16), S(16, 2048, 4096, dtype=f16), S(16, dtype=i32))
    return lambda a, b, sizes: product(a, b, group_sizes=sizes), args
