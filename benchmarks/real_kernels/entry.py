"""One call of somebody's kernel: where it is from, how to call it, on which chips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

TPUS = ("tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-7x")
GPUS = ("a100", "h100", "b200")
HOPPER, BLACKWELL = ("h100",), ("b200",)

f32, f16, bf16, i32, i8 = jnp.float32, jnp.float16, jnp.bfloat16, jnp.int32, jnp.int8
f8 = jnp.float8_e4m3fn

type Built = tuple[Callable[..., Any], Sequence[Any]]
"""A function that JAX traces, and its arguments: shapes, and arrays where blocks are chosen by their contents."""


@dataclass(frozen=True)
class Call:
    """A call with realistic shapes. ``name``: ``package/module/function`` and a variant after ``#``."""

    name: str
    build: Callable[..., Built]
    targets: tuple[str, ...]
    mesh: int = 0
    """Devices of the mesh along ``x`` that ``build`` takes; 0 where it takes none."""

    @property
    def package(self) -> str:
        """The package that must be installed."""
        return self.name.partition("/")[0]


CALLS: dict[str, Call] = {}


def call(name: str, targets: Sequence[str] = TPUS, mesh: int = 0) -> Callable[[Callable[..., Built]], Any]:
    """Enter the decorated builder under a name."""

    def enter(build: Callable[..., Built]) -> Callable[..., Built]:
        assert name not in CALLS, name
        CALLS[name] = Call(name, build, tuple(targets), mesh)
        return build

    return enter


def S(*shape: int, dtype: Any = bf16, sharding: Any = None) -> jax.ShapeDtypeStruct:
    """An argument's shape, in elements."""
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def group_sizes(groups: int, rows: int) -> np.ndarray[Any, Any]:
    """How many rows each group has: cut at random, as megablox's own tests do it; all rows are in some group."""
    cuts = np.random.default_rng(groups).integers(0, rows + 1, groups - 1)
    return np.diff(np.sort([0, *cuts, rows])).astype(np.int32)


def gradients(fn: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The gradients of the first ``count`` arguments, through the function's own backward kernels."""

    def loss(*args: Any) -> Any:
        return sum(jnp.sum(leaf.astype(f32)) for leaf in jax.tree.leaves(fn(*args)))

    return jax.grad(loss, argnums=tuple(range(count)))
