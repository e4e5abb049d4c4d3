"""Between columns, as reductions along rows leave their results, and rows, which lie in HBM without padding.

A column of ``n`` values takes ``128 n`` in HBM, where a row takes ``n``. A sum over the diagonal turns one into the
other on every chip, exactly, for it adds zeros alone.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

_PART = 128
"""Values that are turned at once."""


def store_as_row(out: Any, column: jax.Array) -> None:
    """Store a column, shape ``(n, 1)``, in a ref of shape ``(1, n)``."""
    for part in _parts(column.shape[0]):
        out[:, part] = _diagonal(column[part]).sum(axis=0, keepdims=True)


def store_as_column(out: Any, row: Any) -> None:
    """Store what a ref of shape ``(1, n)`` holds in one of shape ``(n, 1)``."""
    for part in _parts(row.shape[1]):
        out[part, :] = _diagonal(row[:, part]).sum(axis=1, keepdims=True)


def _diagonal(values: jax.Array) -> jax.Array:
    """A square with the values of a row or a column along its diagonal."""
    row, column = (lax.broadcasted_iota(jnp.int32, (values.size, values.size), axis) for axis in (0, 1))
    return jnp.where(row == column, values, 0)


def _parts(count: int) -> list[slice]:
    return [slice(start, min(start + _PART, count)) for start in range(0, count, _PART)]
