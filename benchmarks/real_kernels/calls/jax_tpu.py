"""JAX's own TPU kernels, splash attention apart."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from benchmarks.real_kernels.entry import Built, S, bf16, call, f32, gradients, group_sizes, i8, i32


@call("jax/matmul/matmul")
def _() -> Built:
    from jax.experimental.pallas.ops.tpu.matmul import matmul

    return functools.partial(matmul, block_shape=(512, 512), block_k=512), (S(2048, 2048), S(2048, 2048))


@call("jax/matmul/matmul#int8")
def _() -> Built:
    from jax.experimental.pallas.ops.tpu.matmul import matmul

    square = S(1024, 1024, dtype=i8)
    return functools.partial(matmul, block_shape=(256, 256), block_k=256, out_dtype=i32), (square, square)


@call("jax/example_kernel/double")
def _() -> Built:
    from jax.experimental.pallas.ops.tpu.example_kernel import double

    return double, (S(8, 128, dtype=f32),)


_FLASH_BLOCKS = (
    *("block_q", "block_k_major", "block_k", "block_q_major_dkv", "block_k_major_dkv", "block_k_dkv"),
    *("block_q_dkv", "block_k_major_dq", "block_k_dq", "block_q_dq"),
)


@call("jax/flash_attention/flash_attention")
def _() -> Built:
    from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

    return functools.partial(flash_attention, causal=True, sm_scale=128**-0.5), (S(2, 4, 1024, 128),) * 3


@call("jax/flash_attention/flash_attention#bwd")
def _() -> Built:
    from jax.experimental.pallas.ops.tpu.flash_attention import BlockSizes, flash_attention

    sizes = BlockSizes(block_b=1, **dict.fromkeys(_FLASH_BLOCKS, 512))
    attend = functools.partial(flash_attention, causal=True, sm_scale=128**-0.5, block_sizes=sizes)
    return gradients(attend, 3), (S(2, 4, 1024, 128),) * 3


@call("jax/flash_attention/flash_attention#bwd_ab_segids")
def _() -> Built:
    from jax.experimental.pallas.ops.tpu.flash_attention import BlockSizes, SegmentIds, flash_attention

    small = {"block_k": 128, "block_k_dkv": 128, "block_k_dq": 128}
    sizes = BlockSizes(block_b=1, **(dict.fromkeys(_FLASH_BLOCKS, 256) | small))

    def attend(q: Any, k: Any, v: Any, bias: Any, qs: Any, ks: Any) -> Any:
        def forward(q: Any, k: Any, v: Any) -> Any:
            return flash_attention(q, k, v, bias, SegmentIds(qs, ks), sm_scale=64**-0.5, block_sizes=sizes)

        return gradients(forward, 3)(q, k, v)

    ids = S(2, 512, dtype=i32)
    return attend, (*(S(2, 2, 512, 64),) * 3, S(2, 2, 512, 512), ids, ids)


def _paged(inline: bool, megacore: str | None = None) -> Built:
    from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention_kernel as paged

    attend = functools.partial(
        paged.paged_attention, pages_per_compute_block=8, inline_seq_dim=inline, megacore_mode=megacore
    )
    pages = S(2, 512, 16, 128, dtype=f32)
    return attend, (S(8, 16, 128, dtype=f32), pages, pages, S(8, dtype=i32), S(8, 64, dtype=i32))


call("jax/paged_attention/paged_attention")(lambda: _paged(True))
call("jax/paged_attention/paged_attention#grid_seq")(lambda: _paged(False))
call("jax/paged_attention/paged_attention#megacore_kv_head")(lambda: _paged(True, "kv_head"))


@call("jax/paged_attention/paged_attention#int8_kv")
def _() -> Built:
    from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention_kernel as paged
    from jax.experimental.pallas.ops.tpu.paged_attention.quantization_utils import QuantizedTensor

    def attend(q: Any, k: Any, k_scale: Any, v: Any, v_scale: Any, lengths: Any, table: Any) -> Any:
        keys, values = QuantizedTensor(k, k_scale), QuantizedTensor(v, v_scale)
        return paged.paged_attention(q, keys, values, lengths, table, pages_per_compute_block=8, inline_seq_dim=True)

    pages, scales = S(2, 512, 16, 128, dtype=i8), S(2, 512, 16, 1, dtype=f32)
    table = (S(8, dtype=i32), S(8, 64, dtype=i32))
    return attend, (S(8, 16, 128, dtype=f32), pages, scales, pages, scales, *table)


def _ragged_paged(
    tokens: int, heads: int, pages: Any, sequences: int, per_sequence: int, queries: int, **more: Any
) -> Built:
    from jax.experimental.pallas.ops.tpu.ragged_paged_attention import ragged_paged_attention

    attend = functools.partial(
        ragged_paged_attention,
        sm_scale=128**-0.5,
        num_kv_pages_per_block=8,
        num_queries_per_block=queries,
        vmem_limit_bytes=32 << 20,
        **more,
    )
    table = (S(sequences, dtype=i32), S(sequences, per_sequence, dtype=i32))
    return attend, (S(tokens, heads, 128), pages, *table, S(sequences + 1, dtype=i32), S(1, dtype=i32))


@call("jax/ragged_paged_attention/ragged_paged_attention")
def _() -> Built:
    return _ragged_paged(512, 32, S(1000, 16, 16, 128), 16, 128, 64)


@call("jax/ragged_paged_attention/ragged_paged_attention#sliding_softcap_f8kv")
def _() -> Built:
    pages = S(500, 32, 16, 128, dtype=jnp.float8_e5m2)
    scales = {"k_scale": 0.5, "v_scale": 0.5}
    return _ragged_paged(256, 16, pages, 8, 64, 32, sliding_window=256, soft_cap=30.0, **scales)


@call("jax/megablox/gmm")
def _() -> Built:
    from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm

    product = functools.partial(gmm, preferred_element_type=f32, tiling=(128, 512, 512))
    return product, (S(1024, 1024), S(8, 1024, 1024), group_sizes(8, 1024))


@call("jax/megablox/gmm#transpose_rhs_irregular_k")
def _() -> Built:
    from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm

    product = functools.partial(gmm, preferred_element_type=bf16, tiling=(128, 128, 128), transpose_rhs=True)
    return product, (S(512, 600), S(4, 896, 600), group_sizes(4, 512))


@call("jax/megablox/tgmm")
def _() -> Built:
    from jax.experimental.pallas.ops.tpu.megablox.gmm import tgmm

    product = functools.partial(tgmm, preferred_element_type=f32, tiling=(128, 128, 128))
    return product, (S(512, 1024), S(1024, 512), group_sizes(8, 1024))


@call("jax/megablox/gmm#bwd")
def _() -> Built:
    from jax.experimental.pallas.ops.tpu.megablox import ops

    def backward(x: Any, w: Any, sizes: Any) -> Any:
        return gradients(lambda x, w: ops.gmm(x, w, sizes, f32, (128, 128, 128)), 2)(x, w)

    return backward, (S(1024, 512), S(8, 512, 512), group_sizes(8, 1024))


@call("jax/all_gather/all_gather", mesh=4)
def _(mesh: Any) -> Built:
    from jax.experimental.pallas.ops.tpu.all_gather import all_gather

    rows = S(4 * 256, 1024, dtype=f32, sharding=NamedSharding(mesh, PartitionSpec("x")))
    return functools.partial(all_gather, mesh=mesh, axis_name="x"), (rows,)


@call("jax/random/plthreefry_random_bits")
def _() -> Built:
    from jax.experimental.pallas.ops.tpu.random.threefry import plthreefry_random_bits

    return lambda key: plthreefry_random_bits(key, 32, (1024, 1000)), (S(2, dtype=jnp.uint32),)


@call("jax/random/philox_random_bits")
def _() -> Built:
    from jax.experimental.pallas.ops.tpu.random.philox import philox_random_bits

    return lambda key: philox_random_bits(key, 32, (1024, 512)), (jax.ShapeDtypeStruct((2,), jnp.uint32),)
