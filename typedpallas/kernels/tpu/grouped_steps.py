"""Which tile of rows and which group each step of a grouped product works on: tables for scalar prefetch."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Steps(NamedTuple):
    """One entry for each step, in order. A tile that several groups share has a step for each of them."""

    tiles: jax.Array
    groups: jax.Array
    starts: jax.Array
    """The first row of the group, counted from the first of all rows."""
    ends: jax.Array
    """The row after its last. Steps that are left over have none."""


def by_rows(sizes: jax.Array, rows: int, tile: int) -> Steps:
    """Steps that visit every tile, one after the other; rows that belong to no group are a last group's, of no rows.

    Args:
        sizes: int32, shape ``(groups,)``: rows of each group, at most ``rows`` together.
        rows: of all.
        tile: rows of a tile; the last one may be partial.
    """
    ends = jnp.cumsum(jnp.append(sizes, rows - sizes.sum()))
    starts = jnp.append(0, ends[:-1])
    tiles = -(-rows // tile)
    found = _steps(starts, ends, jnp.zeros_like(ends), tile, tiles + sizes.size, tiles - 1)
    owned = found.groups < sizes.size
    return Steps(
        found.tiles,
        jnp.minimum(found.groups, sizes.size - 1),
        jnp.where(owned, found.starts, 0),
        jnp.where(owned, found.ends, 0),
    )


def by_groups(sizes: jax.Array, rows: int, tile: int) -> Steps:
    """Steps that visit every group, one after the other, those without rows too. Arguments as of `by_rows`."""
    ends = jnp.cumsum(sizes)
    tiles = -(-rows // tile)
    return _steps(ends - sizes, ends, jnp.ones_like(ends), tile, tiles + sizes.size, tiles - 1)


def _steps(starts: jax.Array, ends: jax.Array, least: jax.Array, tile: int, count: int, last: int) -> Steps:
    """``count`` steps; groups without rows have ``least``. What is left over stays at the last tile and group."""
    first = starts // tile
    own = jnp.where(ends > starts, (ends - 1) // tile - first + 1, least)
    before = jnp.cumsum(own)
    step = jnp.arange(count, dtype=jnp.int32)
    group = jnp.clip((step[:, None] >= before).sum(axis=1, dtype=jnp.int32), 0, starts.size - 1)
    real = step < before[-1]
    place = first[group] + step - (before[group] - own[group])
    tiles = jnp.clip(jnp.where(real, place, last), 0, last)
    return Steps(
        *(_int32(x) for x in (tiles, group, jnp.where(real, starts[group], 0), jnp.where(real, ends[group], 0)))
    )


def _int32(x: Any) -> jax.Array:
    return jnp.asarray(x, jnp.int32)
