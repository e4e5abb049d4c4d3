"""Which keys a query sees, and so which blocks a TPU's grid has to visit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from typedpallas.kernels import costs

MASKED = -1e30
"""The score of a key that a query may not see: finite, so that no row's maximum is minus infinity."""


@dataclass(frozen=True)
class Mask:
    """Blocks are counted; ``block_q`` and ``block_k`` are their sizes in queries and keys."""

    causal: bool
    window: int | None
    block_q: int
    block_k: int
    q_blocks: int
    k_blocks: int
    segmented: bool

    def key_block(self, i: Any, j: Any) -> Any:
        """The block of keys nearest to ``j`` that the queries of block ``i`` see: what is not seen is not copied."""
        if not self.causal:
            return j
        last = jnp.minimum(lax.div((i + 1) * self.block_q - 1, self.block_k), self.k_blocks - 1)
        if self.window is None:
            return jnp.minimum(j, last)
        first = lax.div(jnp.maximum(i * self.block_q - (self.window - 1), 0), self.block_k)
        return jnp.minimum(jnp.maximum(j, first), last)

    def query_block(self, i: Any, j: Any) -> Any:
        """The block of queries nearest to ``i`` that see the keys of block ``j``."""
        if not self.causal:
            return i
        first = jnp.minimum(lax.div(j * self.block_k, self.block_q), self.q_blocks - 1)
        if self.window is None:
            return jnp.maximum(i, first)
        end = (j + 1) * self.block_k - 1 + (self.window - 1)
        last = jnp.minimum(lax.div(end, self.block_q), self.q_blocks - 1)
        return jnp.minimum(jnp.maximum(i, first), jnp.maximum(last, first))

    def visit(self, i: Any, j: Any, update: Callable[[bool], None]) -> None:
        """Calls ``update`` (with whether to mask scores) if queries of block ``i`` see keys of block ``j``."""
        if not self.causal:
            update(self.segmented)
            return
        some, every = self.overlap(i, j)
        if self.segmented:
            pl.when(some)(lambda: update(True))
            return
        pl.when(every)(lambda: update(False))
        pl.when(some & ~every)(lambda: update(True))

    def overlap(self, i: Any, j: Any) -> tuple[Any, Any]:
        """Whether, by their places alone, some query of block ``i`` sees some key of block ``j``; whether all do."""
        first_query, first_key = i * self.block_q, j * self.block_k
        last_query, last_key = first_query + (self.block_q - 1), first_key + (self.block_k - 1)
        some, every = first_key <= last_query, last_key <= first_query
        if self.window is not None:
            some &= last_key > first_query - self.window
            every &= first_key > last_query - self.window
        return some, every

    @property
    def scores(self) -> int:
        """Scores of the blocks that are visited, for one head."""
        i, j = np.arange(self.q_blocks)[:, None], np.arange(self.k_blocks)[None]
        visited = int(self.overlap(i, j)[0].sum()) if self.causal else self.q_blocks * self.k_blocks
        return visited * self.block_q * self.block_k

    def cost(self, products: int, operands: Sequence[Any], results: Sequence[Any]) -> pl.CostEstimate:
        """Of a kernel that makes ``products`` of queries' blocks with keys'. The first operand is the queries'."""
        batch, kv_heads, group, _, dim = operands[0].shape
        scores = batch * kv_heads * group * self.scores
        return costs.products(products * scores * dim, (*operands, *results), scores)

    def visible(self, i: Any, j: Any, ids: tuple[Any, Any], transposed: bool = False) -> jax.Array:
        """Of the scores of a block of queries and keys, which count; ``transposed``: keys by queries.

        ``ids``: the segments of queries and keys, a column and a row, or the other way round if transposed.
        """
        shape, q_axis = (self.block_q, self.block_k), 0
        if transposed:
            shape, q_axis = (self.block_k, self.block_q), 1
        seen: jax.Array | None = ids[0] == ids[1] if self.segmented else None
        if self.causal:
            query = i * self.block_q + lax.broadcasted_iota(jnp.int32, shape, q_axis)
            key = j * self.block_k + lax.broadcasted_iota(jnp.int32, shape, 1 - q_axis)
            before: jax.Array = key <= query
            if self.window is not None:
                before &= key > query - self.window
            seen = before if seen is None else seen & before
        assert seen is not None
        return seen
