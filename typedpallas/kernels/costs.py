"""What kernels cost, for XLA, which orders other work around them: from shapes alone, each array moved once."""

from collections.abc import Iterable
from typing import Any

import jax
from jax.experimental import pallas as pl


def estimate(flops: int, arrays: Iterable[Any], transcendentals: int = 0, sent: int = 0) -> pl.CostEstimate:
    """Of one call.

    ``arrays``: all operands and results, anything with a size and an element type; ``sent``: bytes to other devices.
    """
    moved = sum(array.size * array.dtype.itemsize for array in arrays)
    return pl.CostEstimate(
        flops=flops, transcendentals=transcendentals, bytes_accessed=moved, remote_bytes_transferred=sent
    )


def paged(q: Any, pages: Any, tables: Any, *others: Any) -> pl.CostEstimate:
    """Of attention to the keys and values of as many pages as the tables hold, by every query of a sequence's.

    Nobody knows the lengths beforehand, so it is an upper bound. ``q``: shape ``(queries, heads, head_dim)``;
    ``pages``: ``(kv_heads, pages, page_size, head_dim)``, of keys or of values; ``tables``: ``(sequences, pages)``.
    """
    kv_heads, _, page, dim = pages.shape
    scores = q.shape[0] * q.shape[1] * tables.shape[1] * page
    read = jax.ShapeDtypeStruct((kv_heads, tables.size, page, dim), pages.dtype)
    return products(2 * scores * dim, (q, read, read, q, tables, *others), scores)


def products(count: int, arrays: Iterable[Any], transcendentals: int = 0) -> pl.CostEstimate:
    """As `estimate`, of ``count`` products that are added up."""
    return estimate(2 * count, arrays, transcendentals)
