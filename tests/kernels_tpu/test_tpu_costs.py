"""What the TPU kernels say that they cost, beside XLA's analysis of the definitions at the same shapes."""

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import typedpallas as tp
from benchmarks.tpu_kernels import KERNELS, gradient
from typedpallas.compilers.ambient import target_context
from typedpallas.launching import checks
from typedpallas.tracing import jaxapi
from typedpallas.tracing.walk import kernels

scaled_relu = import_module("typedpallas.kernels.scaled_relu")


def product(x: Any, y: Any, *scales: Any) -> Any:
    out = jnp.dot(x, y, preferred_element_type=jnp.float32)
    return out * scales[0][:, None] * scales[1] if scales else out.astype(x.dtype)


def attention(q: Any, k: Any, v: Any, *ids: Any) -> Any:
    grouped = q.reshape(q.shape[0], k.shape[1], -1, *q.shape[2:])
    scores = jnp.einsum("bhgqd,bhkd->bhgqk", grouped, k)
    weights = jax.nn.softmax(scores.astype(jnp.float32)).astype(q.dtype)
    return jnp.einsum("bhgqk,bhkd->bhgqd", weights, v).reshape(q.shape)


def paged(q: Any, k: Any, v: Any, tables: Any, *others: Any) -> Any:
    """Every query of the batch sees the keys of one sequence, as long as the table."""
    keys, values = (x[:, tables[0]].reshape(1, x.shape[0], -1, x.shape[3]) for x in (k, v))
    return attention(q.swapaxes(0, 1)[None], keys, values)


def grouped(x: Any, w: Any, sizes: Any) -> Any:
    """Groups of one size."""
    return jnp.einsum("gmk,gkn->gmn", x.reshape(len(w), -1, x.shape[1]), w).reshape(-1, w.shape[2])


def softmax(x: Any) -> Any:
    return jax.nn.softmax(x.astype(jnp.float32)).astype(x.dtype)


def rms_norm(x: Any, weight: Any) -> Any:
    rows = x.astype(jnp.float32)
    return (rows * jax.lax.rsqrt((rows * rows).mean(axis=-1, keepdims=True) + 1e-5) * weight).astype(x.dtype)


DEFINITIONS: dict[str, tuple[Callable[..., Any], float]] = {
    "matmul": (product, 1),
    "matmul, int8 with scales": (product, 1),
    "matmul, fp8 with scales": (product, 1),
    "paged attention": (paged, 1),
    "ragged paged attention": (paged, 1),
    "attention, causal": (attention, 1 / 2),
    "attention, grouped, window": (attention, 3 / 4),
    "attention, segments": (attention, 1),
    # Weights are computed again, by both of the kernels that go backward: 9 products where XLA has 6.
    "attention, causal, gradients": (gradient(attention, 3), 3 / 4),
    "grouped matmul": (grouped, 1),
    "grouped matmul, gradients": (gradient(grouped, 2), 1),
    "softmax": (softmax, 1),
    "rms_norm": (rms_norm, 1),
}
"""And the part of its scores that the kernel computes, by and large."""


def estimates(fn: Callable[..., Any], arrays: Any, target: str = "tpu-v5e") -> list[pl.CostEstimate]:
    with target_context(target), checks.left_to_the_compiler():
        return [
            kernel.eqn.params["cost_estimate"] for kernel in kernels(jaxapi.trace(fn, tuple(arrays)), "mosaic_tpu")
        ]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_beside_xla(name: str) -> None:
    kernel = KERNELS[name]
    definition, part = DEFINITIONS[name]
    arrays = kernel.on("tpu-v5e")
    found = estimates(kernel.ours, arrays)
    assert None not in found
    expected = jax.jit(definition).lower(*arrays).cost_analysis()
    flops = sum(cost.flops for cost in found)
    assert part * expected["flops"] / 1.6 <= flops <= part * expected["flops"] * 1.6
    powers = sum(cost.transcendentals for cost in found)
    assert part * expected.get("transcendentals", 0) / 1.6 <= powers
    moved = sum(cost.bytes_accessed for cost in found)
    ends = sum(x.size * x.dtype.itemsize for x in (*arrays, *jax.tree.leaves(jax.eval_shape(definition, *arrays))))
    assert ends / 2 <= moved <= 2 * expected["bytes accessed"]


def test_what_is_sent_to_others() -> None:
    """Of one chip of four: it sends three parts on, its own among them."""
    (gathered,), (multiplied,) = (
        estimates(KERNELS[name].ours, KERNELS[name].on("tpu-v5e")) for name in ("all-gather", "all-gather, matmul")
    )
    part = 256 * 512 * 2
    assert gathered.remote_bytes_transferred == multiplied.remote_bytes_transferred == 3 * part
    assert (gathered.flops, multiplied.flops) == (0, 2 * 1024 * 512 * 512)
    assert gathered.bytes_accessed == 5 * part


def test_every_kernel_is_held_against_something() -> None:
    assert set(KERNELS) - set(DEFINITIONS) == {"all-gather", "all-gather, matmul"}


def test_larger_arrays_cost_more() -> None:
    """Nothing is fixed when a launch is made."""
    kernel = KERNELS["matmul"]
    small, large = ((jax.ShapeDtypeStruct((size, size), jnp.bfloat16),) * 2 for size in (512, 1024))
    ((once,), (twice,)) = (estimates(kernel.ours, arrays) for arrays in (small, large))
    assert (twice.flops, twice.bytes_accessed) == (8 * once.flops, 4 * once.bytes_accessed)


def test_a_cost_of_ones_own() -> None:
    """A definition in plain JAX will do."""
    own = scaled_relu.launch.bind(tuning=tp.Tuning(cost=functools.partial(pl.estimate_cost, lambda x: x * 2)))
    x = jax.ShapeDtypeStruct((64, 256), jnp.float32)
    (found,) = estimates(functools.partial(own, BM=32, BN=128), (x,))
    assert (found.flops, found.bytes_accessed) == (x.size, 2 * 4 * x.size)
    assert f"cost_estimate = {found}" in str(own.spec(x, target="tpu-v5e", BM=32, BN=128))
