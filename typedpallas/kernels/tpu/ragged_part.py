"""Which queries, slots of keys and scores one step of ragged attention is about."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


class Part:
    """What a step works on: the queries of one sequence within a tile, each of ``group`` rows.

    ``own``: the first of them, and the one after the last, counted from the tile's first query; they may lie outside
    of it. ``position``: where the tile's first query would stand in the sequence.
    """

    def __init__(
        self, step: Any, tiles: Any, starts: Any, ends: Any, length: Any, rows: int, group: int, window: int | None
    ) -> None:
        self.size, self.group, self.window = rows // group, group, window
        before = tiles[step] * self.size
        self.own = starts[step] - before, ends[step] - before
        self.position = length - self.own[1]
        self.any = ends[step] > starts[step]

    def turns(self, keys: int) -> tuple[jax.Array, jax.Array]:
        """The first slot of ``keys`` that some query sees, and the one after the last; none if there is no query."""
        end = jnp.where(self.any, self.position + jnp.minimum(self.own[1], self.size), 0)
        least: jax.Array = jnp.zeros_like(end)
        if self.window is not None:
            least = jnp.clip(self.position + jnp.maximum(self.own[0], 0) - (self.window - 1), 0, end)
        return lax.div(least, keys), lax.div(end + (keys - 1), keys)

    def visible(self, shape: tuple[int, ...], first: Any) -> jax.Array:
        """Which scores count, of rows by the keys from ``first`` on."""
        row = lax.broadcasted_iota(jnp.int32, shape, 0)
        # Rows of one query stand together: key <= position + row // group, without dividing.
        ahead = first + lax.broadcasted_iota(jnp.int32, shape, 1) - self.position
        seen: jax.Array = ahead * self.group <= row
        if self.window is not None:
            seen &= (ahead + self.window) * self.group > row
        return seen

    def owned(self, shape: tuple[int, ...]) -> jax.Array:
        """Which rows are of the step's queries."""
        row = lax.broadcasted_iota(jnp.int32, shape, 0)
        own: jax.Array = (row >= self.own[0] * self.group) & (row < self.own[1] * self.group)
        return own
