"""What the attention kernels for Hopper have in common: rings of slots, masks and the shapes of rows."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

MASKED = -(2.0**100)
"""The score of a key that a query may not see: finite, so that no row's maximum is minus infinity.

A power of two, for a row that sees nothing yet computes ``exp2(MASKED * scale - highest)`` where ``highest`` is the
rounded product: what the rounding takes away is far from zero for other numbers.
"""


@dataclass(frozen=True)
class Ring:
    """Slots that one warpgroup fills and the others empty. Each slot may have parts, filled and freed together.

    With ``peers`` the blocks along that axis of a cluster fill the first part of each slot together, half each, and
    free it together.
    """

    slots: tuple[Any, ...]
    filled: Any
    freed: Any
    stages: int
    peers: str | None = None

    def fill(self, step: Any, *sources: Any) -> None:
        """Copy in as soon as the slot is free; ``step`` counts what went through. One source for each part."""
        slot = lax.rem(step, self.stages)
        pl.when(step >= self.stages)(lambda: plgpu.barrier_wait(self.freed.at[slot]))
        for number, (source, slots) in enumerate(zip(sources, self.slots, strict=True)):
            peers = None if number else self.peers
            plgpu.copy_gmem_to_smem(source, slots.at[slot], self.filled.at[slot], collective_axes=peers)

    def take(self, step: Any) -> Any:
        """The slot's ref, or the refs of its parts, when it is filled."""
        plgpu.barrier_wait(self.filled.at[lax.rem(step, self.stages)])
        return self.at(step)

    def at(self, step: Any) -> Any:
        """The slot's ref, or the refs of its parts, when it was taken before."""
        slot = lax.rem(step, self.stages)
        parts = tuple(slots.at[slot] for slots in self.slots)
        return parts[0] if len(parts) == 1 else parts

    def drain(self, steps: Any) -> None:
        """Wait, with so many steps filled and freed in all, until nobody signals here any more."""

        @pl.loop(lax.max(steps - self.stages, 0), steps)
        def _(step: Any) -> None:
            plgpu.barrier_wait(self.freed.at[lax.rem(step, self.stages)])

    def give_back(self, step: Any) -> None:
        """This warpgroup is done with the slot."""
        plgpu.barrier_arrive(self.freed.at[lax.rem(step, self.stages)])


def rows(column: jax.Array, like: jax.Array | jax.ShapeDtypeStruct) -> jax.Array:
    """One number for each row, as a matrix."""
    return lax.broadcast_in_dim(column, like.shape, [0])


def columns(row: jax.Array, like: jax.Array | jax.ShapeDtypeStruct) -> jax.Array:
    """One number for each column, as a matrix."""
    return lax.broadcast_in_dim(row, like.shape, [1])


def fold(operation: Callable[[jax.Array, jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    """Eight columns that reduce to what all columns do: half after half, in short chains and within each thread."""
    while (half := x.shape[1] // 2) >= 8:
        x = operation(x[:, :half], x[:, half:])
    return x


def numbers(shape: tuple[int, ...], axis: int) -> jax.Array:
    """``0, 1, ...`` along an axis of a matrix of scores."""
    layout = plgpu.Layout.WGMMA.reduce(1 - axis)
    return plgpu.broadcasted_iota(jnp.int32, (shape[axis],), 0, layout=layout)


def zeros(shape: tuple[int, ...]) -> jax.Array:
    """What an accumulator starts from."""
    made: jax.Array = plgpu.layout_cast(jnp.zeros(shape, jnp.float32), plgpu.Layout.WGMMA)
    return made


def visible(
    shape: tuple[int, ...],
    ahead: Any,
    causal: bool,
    window: int | None,
    segments: tuple[Any, Any] | None,
    queries_axis: int = 0,
) -> jax.Array | None:
    """Which keys queries may see; none if all of them.

    Args:
        shape: of the scores; queries along ``queries_axis``, keys along the other.
        ahead: how many keys the first query is ahead of the first key.
        causal: a query sees no keys after itself.
        window: and of the others, only so many.
        segments: refs of the segments of the queries and of the keys; only equal ones see each other.
        queries_axis: 0 or 1.
    """
    tests: list[jax.Array] = []
    down, across = (numbers(shape, axis) for axis in (0, 1))
    like = jax.ShapeDtypeStruct(shape, jnp.int32)
    if segments is not None and not causal:
        # True everywhere. It tells the layouts, which take minutes to infer where nothing but segments tells them.
        causal, ahead = True, shape[1 - queries_axis]
    if queries_axis == 0:  # down: queries
        if causal:
            tests.append(columns(across, like) <= rows(down + ahead, like))
        if window is not None:
            tests.append(columns(across, like) > rows(down + (ahead - window), like))
    else:
        if causal:
            tests.append(rows(down - ahead, like) <= columns(across, like))
        if window is not None:
            tests.append(rows(down - (ahead - window), like) > columns(across, like))
    if segments is not None:
        pair = segments if queries_axis == 0 else segments[::-1]
        of_rows, of_columns = (
            plgpu.load(ref, layout=plgpu.Layout.WGMMA.reduce(1 - axis)) for axis, ref in enumerate(pair)
        )
        tests.append(rows(of_rows, like) == columns(of_columns, like))
    return functools.reduce(jnp.logical_and, tests) if tests else None
