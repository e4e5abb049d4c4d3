"""What several families draw: element types, shapes, blocks, index maps as text."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

HEAD = """import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plt
"""
TPU_DTYPES = ("float32", "float32", "bfloat16", "bfloat16", "int32", "int8", "int16")
GPU_DTYPES = ("float32", "float32", "float16", "bfloat16", "int32")


def divisors(number: int) -> list[int]:
    """Every divisor, smallest first."""
    return [k for k in range(1, number + 1) if number % k == 0]


def block_size(rng: random.Random, dim: int, odd: float, most: int = 512) -> int:
    """A block for a dim: mostly a divisor, the whole dim or, with probability ``odd``, any number."""
    if rng.random() < odd:
        return rng.choice([k for k in (1, 2, 4, 5, 8, 12, 16, 32, 64, 100, 128, 192, 256) if k <= 2 * dim])
    kind = rng.random()
    if kind < 0.3:
        return min(dim, most)
    return rng.choice([k for k in divisors(dim) if k <= most])


def steps(dim: int, size: int) -> int:
    """How many blocks cover a dim."""
    return -(-dim // size)


def broken_index(rng: random.Random, name: str, count: int) -> str:
    """One block index over grid axis ``name`` of ``count`` steps that is not simply the axis."""
    return rng.choice(
        [
            "0",
            f"{name} + 1",
            f"{name} - 1",
            f"{count - 1} - {name}",
            f"{name} // 2",
            f"{name} * 2",
            f"({name} + 1) % {count}",
            f"{name} % 2",
            f"jnp.minimum({name} + 1, {count - 1})",
        ]
    )


def map_text(names: Sequence[str], indices: Sequence[str]) -> str:
    """An index map's source."""
    return f"lambda {', '.join(names)}: ({', '.join(indices)}{',' if len(indices) == 1 else ''})"


class _Minimum:
    """What the texts of index maps name of `jax.numpy`, on numbers."""

    minimum = staticmethod(min)


def map_function(text: str) -> Callable[..., tuple[int, ...]]:
    """An index map's source as a function of numbers."""
    found: Any = eval(text, {"jnp": _Minimum})
    return found  # type: ignore[no-any-return]


def spec_text(block: Sequence[int | None], index: str) -> str:
    """A block spec's source."""
    return f"pl.BlockSpec({tuple(block)!r}, {index})"
