"""What one step of ragged attention works on, and how it takes in keys and values."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from typedpallas.kernels.tpu.attention_forward import BY_ROWS
from typedpallas.kernels.tpu.attention_masks import MASKED


class Part:
    """What a step works on: the queries of one sequence within a tile, each of ``group`` rows.

    ``own``: the first of them, and the one after the last, counted from the tile's first query; they may lie outside
    of it. ``position``: where the tile's first query would stand in the sequence. ``new``: no step before this one
    worked on the tile.
    """

    def __init__(
        self, step: Any, tiles: Any, starts: Any, ends: Any, length: Any, rows: int, group: int, window: int | None
    ) -> None:
        self.size, self.group, self.window, self.length = rows // group, group, window, length
        before = tiles[step] * self.size
        self.own = starts[step] - before, ends[step] - before
        self.position = length - self.own[1]
        self.any = ends[step] > starts[step]
        self.new = (step == 0) | (tiles[jnp.maximum(step - 1, 0)] != tiles[step])

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

    def clear(self, highest: Any, total: Any, mean: Any) -> None:
        """Begin a softmax: no keys yet."""
        highest[...] = jnp.full(highest.shape, MASKED, jnp.float32)
        total[...] = jnp.zeros(total.shape, jnp.float32)
        mean[...] = jnp.zeros(mean.shape, jnp.float32)

    def attend(self, first: Any, q: jax.Array, loaded: Any, state: Any, scale: float) -> None:
        """Take in keys and values, those of the sequence from ``first`` on. ``highest`` is in units of log2."""
        (keys, values), (highest, total, mean) = loaded, state
        scores = lax.dot_general(q, keys, BY_ROWS, preferred_element_type=jnp.float32) * (scale * math.log2(math.e))
        scores = jnp.where(self.visible(scores.shape, first), scores, MASKED)
        before = highest[...]
        now = jnp.maximum(before, scores.max(axis=1, keepdims=True))
        shrink, weights = jnp.exp2(before - now), jnp.exp2(scores - now)
        # What lies behind a sequence's end may be anything, and zero times infinity is no number.
        there = first + lax.broadcasted_iota(jnp.int32, values.shape, 0) < self.length
        added = jnp.dot(
            weights.astype(values.dtype),
            jnp.where(there, values, jnp.zeros_like(values)),
            preferred_element_type=jnp.float32,
        )
        highest[...] = now
        total[...] = total[...] * shrink + weights.sum(axis=1, keepdims=True)
        mean[...] = mean[...] * shrink + added

    def store(self, state: Any, out: Any) -> None:
        """Store the step's own rows, and zeros into the others of a tile that is new."""
        total, mean = state
        own, result = self.owned(out.shape), mean[...] / jnp.where(total[...] == 0, 1, total[...])

        @pl.when(self.new)
        def _() -> None:
            out[...] = jnp.where(own, result, 0).astype(out.dtype)

        @pl.when(~self.new)
        def _() -> None:
            out[...] = jnp.where(own, result, out[...].astype(jnp.float32)).astype(out.dtype)
