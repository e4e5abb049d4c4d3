"""Block sizes for TPUs, in elements, and how a kernel runs where there is none."""

from typing import Any

import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu

from typedpallas.chips import TpuTarget
from typedpallas.launching.choose import choices

_NARROW_SINCE = 4
"""The first generation that multiplies bfloat16."""


def divisor(extent: int, most: int, unit: int) -> int:
    """The largest multiple of ``unit`` up to ``most`` that divides ``extent``; all of it if there is none."""
    return next((size for size in range(most // unit * unit, 0, -unit) if extent % size == 0), extent)


def partial(extent: int, most: int, unit: int) -> int:
    """As `divisor`, but where nothing divides a large extent, ``most``, with a partial last block."""
    return min(divisor(extent, most, unit), most)


def interpreter(asked: Any) -> Any:
    """What `pl.pallas_call` takes as ``interpret``: what was asked for, else the TPU interpreter where no TPU is."""
    if asked is not None:
        return asked
    return pltpu.InterpretParams() if choices("mosaic_tpu", None)[0].interpret else False


def served(dtype: Any) -> bool:
    """Whether the machine at hand is a TPU that multiplies such elements."""
    way = choices(None, None)[0]
    if way.interpret or not isinstance(way.target, TpuTarget):
        return False
    return dtype == jnp.float32 or (dtype == jnp.bfloat16 and way.target.generation >= _NARROW_SINCE)
