"""The typed TPU kernels at one set of shapes, beside what JAX ships for the same; which chips can hold them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu import all_gather as jax_all_gather
from jax.experimental.pallas.ops.tpu import flash_attention as jax_attention
from jax.experimental.pallas.ops.tpu import matmul as jax_matmul
from jax.experimental.pallas.ops.tpu.megablox import ops as megablox
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention as jax_paged_attention
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import ragged_paged_attention as jax_ragged_attention
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from typedpallas.kernels import rms_norm, softmax
from typedpallas.kernels.tpu.attention import flash_attention
from typedpallas.kernels.tpu.grouped_matmul import grouped_matmul
from typedpallas.kernels.tpu.matmul import matmul, scaled_matmul
from typedpallas.kernels.tpu.paged_attention import paged_attention
from typedpallas.kernels.tpu.ragged_paged_attention import ragged_paged_attention
from typedpallas.kernels.tpu.ring import all_gather, all_gather_matmul

CHIPS = ("tpu-v2", "tpu-v3", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-7x")
FLOATS_ALONE = ("tpu-v2", "tpu-v3")
"""Chips whose matrix unit takes float32 alone."""
QUANTISED = ("tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-7x")
SINCE_V4 = ("tpu-v4", *QUANTISED)

type Arrays = tuple[jax.ShapeDtypeStruct, ...]


@dataclass(frozen=True)
class Kernel:
    """A public function of `typedpallas.kernels`. ``arrays`` makes its arguments of an element type."""

    ours: Callable[..., Any]
    arrays: Callable[[str], Arrays]
    theirs: Callable[..., Any] | None = None
    """JAX's own, of the same arguments."""
    targets: tuple[str, ...] = CHIPS
    """The chips that can hold it."""
    reason: str = ""
    """What the checker says of the others."""
    dtype: str = "bfloat16"

    def on(self, target: str) -> Arrays:
        """The arguments for a chip: float32 in the place of bfloat16 where there are no products of bfloat16."""
        narrow = self.dtype == "bfloat16" and target in FLOATS_ALONE
        return self.arrays("float32" if narrow else self.dtype)


def _array(dtype: str, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def _square(dtype: str) -> Arrays:
    return (_array(dtype, 1024, 1024),) * 2


def _scaled(dtype: str) -> Arrays:
    return (*_square(dtype), *(_array("float32", 1024),) * 2)


def _heads(dtype: str) -> Arrays:
    return (_array(dtype, 1, 4, 1024, 128),) * 3


def _grouped_heads(dtype: str) -> Arrays:
    return (_array(dtype, 1, 8, 1024, 128), *(_array(dtype, 1, 2, 1024, 128),) * 2)


def _with_segments(dtype: str) -> Arrays:
    return (*_heads(dtype), *(_array("int32", 1, 1024),) * 2)


def _pages(dtype: str) -> Arrays:
    pages = _array(dtype, 4, 64, 16, 128)
    return _array(dtype, 4, 32, 128), pages, pages, _array("int32", 4, 16), _array("int32", 4)


def _ragged(dtype: str) -> Arrays:
    """Up to 256 tokens of 8 sequences, 32 heads of queries and 4 of keys."""
    pages = _array(dtype, 4, 64, 16, 128)
    return _array(dtype, 256, 32, 128), pages, pages, *(_array("int32", *shape) for shape in ((8, 16), (8,), (9,)))


def _parts(dtype: str) -> Arrays:
    """Of four chips, one after the other."""
    return (_array(dtype, 1024, 512),)


def _parts_and_columns(dtype: str) -> Arrays:
    return (*_parts(dtype), _array(dtype, 2048, 512))


def _groups(dtype: str) -> Arrays:
    return _array(dtype, 1024, 1024), _array(dtype, 8, 1024, 1024), _array("int32", 8)


def _rows(dtype: str) -> Arrays:
    return (_array(dtype, 1024, 2048),)


def _normed(dtype: str) -> Arrays:
    return _array(dtype, 1024, 2048), _array(dtype, 2048)


def gradient(fn: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The sum of the results, and its gradients with respect to the first arguments."""

    def total(*arrays: Any) -> Any:
        return fn(*arrays).astype(jnp.float32).sum()

    return jax.value_and_grad(total, argnums=tuple(range(count)))  # so that no kernel is dead


def _segmented(q: Any, k: Any, v: Any, *segments: Any) -> Any:
    return flash_attention(q, k, v, segments)


def _jax_segmented(q: Any, k: Any, v: Any, *segments: Any) -> Any:
    ids = jax_attention.SegmentIds(*segments)
    return jax_attention.flash_attention(q, k, v, segment_ids=ids, sm_scale=128**-0.5)


def _jax_product(out_dtype: Any, x: Any, y: Any, *scales: Any) -> Any:
    """Of the same blocks; it knows no scales."""
    return jax_matmul.matmul(x, y, block_shape=(512, 512), block_k=512, out_dtype=out_dtype)


def _jax_paged(q: Any, k: Any, v: Any, tables: Any, lengths: Any) -> Any:
    return jax_paged_attention(q, k, v, lengths, tables, pages_per_compute_block=16)


def _jax_ragged(q: Any, k: Any, v: Any, tables: Any, lengths: Any, cu_q_lens: Any) -> Any:
    """Of blocks of as many keys and queries. Its pages hold keys and values of all heads by turns."""
    pages = jnp.stack([k, v], axis=1).reshape(-1, *k.shape[1:]).transpose(1, 2, 0, 3)
    count = jnp.full((1,), lengths.size, jnp.int32)
    blocks = {"num_kv_pages_per_block": 16, "num_queries_per_block": 32}
    return jax_ragged_attention(q, pages, lengths, tables, cu_q_lens, count, sm_scale=128**-0.5, **blocks)


def _jax_grouped(x: Any, w: Any, sizes: Any) -> Any:
    return megablox.gmm(x, w, sizes, x.dtype, (128, 512, 512))


def four() -> AbstractMesh:
    """A ring of four such chips as are traced for."""
    chip = jax.sharding.get_abstract_mesh().abstract_device
    return AbstractMesh((4,), ("x",), (AxisType.Auto,), abstract_device=chip)


def _around(fn: Callable[..., Any]) -> Callable[..., Any]:
    """On four chips; arrays are cut along their first axis."""

    def run(*arrays: Any) -> Any:
        call = functools.partial(fn, axis="x")
        return jax.shard_map(call, mesh=four(), in_specs=P("x"), out_specs=P("x"), check_vma=False)(*arrays)

    return run


def _jax_all_gather(x: Any) -> Any:
    return jax_all_gather.all_gather(x, mesh=four(), axis_name="x")


_causal = functools.partial(flash_attention, causal=True)
_jax_causal = functools.partial(jax_attention.flash_attention, causal=True, sm_scale=128**-0.5)
_NO_NEIGHBOURS = "expected a copy within the device"
_NO_NARROW = "this matrix product is not there"

KERNELS: dict[str, Kernel] = {
    "matmul": Kernel(matmul, _square, functools.partial(_jax_product, None)),
    "matmul, int8 with scales": Kernel(
        scaled_matmul, _scaled, functools.partial(_jax_product, jnp.int32), QUANTISED, _NO_NARROW, "int8"
    ),
    "matmul, fp8 with scales": Kernel(
        scaled_matmul, _scaled, functools.partial(_jax_product, jnp.float32), QUANTISED, _NO_NARROW, "float8_e4m3fn"
    ),
    "paged attention": Kernel(paged_attention, _pages, _jax_paged),
    "ragged paged attention": Kernel(ragged_paged_attention, _ragged, _jax_ragged),
    "attention, causal": Kernel(_causal, _heads, _jax_causal),
    "attention, grouped, window": Kernel(functools.partial(_causal, window=300), _grouped_heads),
    "attention, segments": Kernel(_segmented, _with_segments, _jax_segmented),
    "attention, causal, gradients": Kernel(gradient(_causal, 3), _heads, gradient(_jax_causal, 3)),
    "grouped matmul": Kernel(grouped_matmul, _groups, _jax_grouped),
    "grouped matmul, gradients": Kernel(gradient(grouped_matmul, 2), _groups, gradient(_jax_grouped, 2)),
    "all-gather": Kernel(_around(all_gather), _parts, _jax_all_gather, SINCE_V4, _NO_NEIGHBOURS),
    "all-gather, matmul": Kernel(_around(all_gather_matmul), _parts_and_columns, None, SINCE_V4, _NO_NEIGHBOURS),
    "softmax": Kernel(softmax, _rows),
    "rms_norm": Kernel(rms_norm, _normed),
}
