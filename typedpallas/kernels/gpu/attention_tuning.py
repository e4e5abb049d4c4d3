"""What changes the speed of the Hopper attention, and which block computes which queries."""

import functools
import heapq
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from typedpallas.kernels.gpu.device import multiprocessors
from typedpallas.launching.errors import LaunchError

_CACHE_BYTES = 32 * 2**20
"""What the keys and values that blocks read at the same time may take, so that they stay in the L2 cache."""


@dataclass(frozen=True)
class AttentionTuning:
    """Sizes in queries and keys."""

    groups: int = 2
    """Warpgroups that compute."""
    block_q: int = 64
    """Queries of one warpgroup."""
    block_k: int = 128
    stages: int = 2
    """Slots of the rings of keys and of values."""
    take_turns: bool = True
    """Warpgroups begin their products in turn, so that one's softmax runs beside another's products."""
    paired: bool = False
    """Two blocks side by side share the copies of keys and values; not under a causal mask."""

    @property
    def peers(self) -> str | None:
        """The axis of a cluster."""
        return "peer" if self.paired else None

    @property
    def tile(self) -> int:
        """Queries of one block."""
        return self.groups * self.block_q

    def check(self, queries: int, keys: int) -> None:
        """Whether the blocks divide queries and keys.

        Raises:
            LaunchError: they do not.
        """
        tile = self.tile * (1 + self.paired)
        for what, size, block in (("queries", queries, tile), ("keys", keys, self.block_k)):
            if size % block:
                raise LaunchError(f"flash attention: expected a multiple of {block} {what}, found {size}")

    @property
    def masked(self) -> int:
        """The most blocks of keys that the causal mask cuts for one tile of queries."""
        whole = self.tile % self.block_k == 0 or self.block_k % self.tile == 0
        return -(-self.tile // self.block_k) + (not whole)


def default(queries: int, keys: int, head_dim: int, causal: bool, everywhere: bool = False) -> AttentionTuning:
    """Fast on an H200 where it fits: wide heads, short and odd lengths take smaller blocks. Pairs were timed at 128.

    ``everywhere``: every block of scores is masked, which takes registers.
    """
    wide = head_dim > 128
    groups = 1 if wide or queries % 128 else 2
    if wide or keys % 128 or keys <= 1024 or everywhere:
        return AttentionTuning(groups=groups, block_k=64, stages=2 if wide else 4)
    paired = not causal and head_dim == 128 and queries % 256 == 0
    return AttentionTuning(groups=groups, take_turns=causal or (not paired and keys <= 8192), paired=paired)


@dataclass(frozen=True)
class Work:
    """The tiles of queries of all heads. ``heads`` counts those of every batch."""

    heads: int
    queries: int
    keys: int
    tile: int
    block_k: int
    causal: bool
    bytes_per_head: int
    """Keys and values of one head."""
    window: int | None = None
    """The keys that a query sees, itself the last of them."""

    @property
    def tiles(self) -> int:
        """Tiles of one head."""
        return self.queries // self.tile

    def end(self, tile: int) -> int:
        """The block of keys after the last that a tile sees."""
        blocks = self.keys // self.block_k
        return min(blocks, -(-(tile + 1) * self.tile // self.block_k)) if self.causal else blocks

    def steps(self, tile: int) -> int:
        """Blocks of keys that a tile sees."""
        end = self.end(tile)
        if self.window is None:
            return end
        return end - min(end - 1, max(0, tile * self.tile - self.window + 1) // self.block_k)

    def seen(self, tile: Any) -> tuple[Any, Any]:
        """`steps` and `end` of a tile that is known only when the kernel runs."""
        blocks = self.keys // self.block_k
        if not self.causal:
            return jnp.int32(blocks), jnp.int32(blocks)
        end = lax.min(blocks, lax.div((tile + 1) * self.tile + self.block_k - 1, self.block_k))
        if self.window is None:
            return end, end
        first = lax.div(lax.max(0, tile * self.tile - self.window + 1), self.block_k)
        return end - lax.min(end - 1, first), end

    def order(self) -> list[int]:
        """Tiles by number (``head * tiles + tile``): long ones first, but heads that share the cache together."""
        together = max(1, _CACHE_BYTES // self.bytes_per_head)
        found: list[int] = []
        for first in range(0, self.heads, together):
            heads = range(first, min(first + together, self.heads))
            if self.causal:
                found += [head * self.tiles + tile for tile in reversed(range(self.tiles)) for head in heads]
            else:
                found += [head * self.tiles + tile for head in heads for tile in range(self.tiles)]
        return found


@functools.lru_cache(maxsize=64)
def schedule(work: Work, blocks: int) -> np.ndarray:
    """Which tiles each block computes: int32, shape (blocks, turns, 3); -1 past a block's last.

    The number of the tile, how many blocks of keys it sees, and the block after the last of them.

    Each tile in turn goes to the block that would be free first.
    """
    mine: list[list[tuple[int, int, int]]] = [[] for _ in range(blocks)]
    free = [(0, block) for block in range(blocks)]
    for number in work.order():
        busy, block = free[0]
        steps = work.steps(number % work.tiles)
        mine[block].append((number, steps, work.end(number % work.tiles)))
        heapq.heapreplace(free, (busy + steps + 1, block))
    turns = max(map(len, mine)) + 1
    return np.array([row + [(-1, 0, 0)] * (turns - len(row)) for row in mine], np.int32)


@dataclass(frozen=True)
class BackwardTuning:
    """Sizes in queries and keys."""

    groups: int = 2
    """Warpgroups that compute."""
    block_q: int = 64
    """Queries of one step."""
    block_k: int = 128
    """Keys of one block, which its warpgroups share out."""
    stages: int = 2
    """Slots of the rings of queries and of the gradients of results."""
    turn: int = 0
    """Blocks of queries by which neighbouring blocks of keys begin apart, where all of them see all queries."""
    wide: bool = False
    """Warpgroups share out the dims of the head, each with all keys: for heads of which one has no room."""
    apart: bool = False
    """Heads of queries that share keys go to blocks of their own; what they give the keys is summed afterwards."""

    @property
    def group_keys(self) -> int:
        """Keys of one warpgroup."""
        return self.block_k if self.wide else self.block_k // self.groups

    def group_dims(self, head_dim: int) -> int:
        """Dims of the head of which one warpgroup sums gradients of keys and values."""
        return head_dim // self.groups if self.wide else head_dim

    @property
    def by_queries(self) -> bool:
        """Whether warpgroups share out the queries, not the head, when they sum the gradients of queries."""
        return not self.wide and self.block_q >= 64 * self.groups

    def group_queries(self, head_dim: int) -> tuple[int, int]:
        """Queries and dims of the head of which one warpgroup sums gradients of queries at once."""
        if self.wide:
            return self.block_q, 64
        if self.by_queries:
            return self.block_q // self.groups, head_dim
        return self.block_q, head_dim // self.groups

    def parts(self, head_dim: int) -> int:
        """In how many parts a warpgroup sums them."""
        return head_dim // self.groups // 64 if self.wide else 1

    def stored_dims(self, head_dim: int) -> int:
        """Dims of the head that are stored at once: memory has room for half of a wide head's part."""
        return self.group_queries(head_dim)[1] // (2 if self.wide else 1)

    @property
    def masked(self) -> int:
        """The most blocks of queries that the causal mask cuts for one block of keys."""
        return -(-self.block_k // self.block_q)

    def check(self, queries: int, keys: int, head_dim: int) -> None:
        """Whether the blocks divide queries and keys.

        Raises:
            LaunchError: they do not, or a warpgroup's part is no multiple of 64.
        """
        for what, size, block in (("queries", queries, self.block_q), ("keys", keys, self.block_k)):
            if size % block:
                raise LaunchError(f"flash attention, backward: expected a multiple of {block} {what}, found {size}")
        parts = {"keys": self.group_keys, "queries": self.group_queries(head_dim)[0]}
        parts["dims of the head"] = self.group_queries(head_dim)[1]
        for what, size in parts.items():
            if size % 64:
                raise LaunchError(f"flash attention, backward: expected 64 {what} for each warpgroup, found {size}")


def backward_default(q: Any, k: Any) -> BackwardTuning:
    """Fast on an H200 where it fits. ``q`` and ``k`` have shapes as `attention` takes them."""
    (batch, queries, _, head_dim), (_, keys, kv_heads, _) = q.shape, k.shape
    few = batch * kv_heads * (keys // 128) < multiprocessors()
    if head_dim > 128:
        return BackwardTuning(block_k=64, turn=1, wide=True, apart=few)
    if head_dim <= 64:
        return BackwardTuning(block_q=128 if queries % 128 == 0 else 64, apart=few)
    return BackwardTuning(turn=1, apart=few)
