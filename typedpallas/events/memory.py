"""What a kernel asks of one on-chip memory."""

from __future__ import annotations

from typing import Literal

from typedpallas.records import record


@record(frozen=True, kw_only=True)
class MemoryItem:
    """One buffer in a memory ledger: bytes at least and at most, and how they come about."""

    name: str
    low: int
    high: int
    how: str
    temporary: bool = False
    """Whether it is the compiler's own, beside what the kernel asks for."""
    usual: int | None = None
    """What it comes to at most in nearly every kernel, where that is less than ``high``."""


@record(frozen=True, kw_only=True)
class MemoryUse:
    """What a kernel asks of one on-chip space of the target. Bytes."""

    space: Literal["vmem", "smem", "shared", "tmem"]
    items: tuple[MemoryItem, ...]
    limit: int
    limit_from: str
    """Where the limit comes from, for messages."""
    most: int | None = None
    """The highest limit that the target gives to a kernel that asks for it."""
    fitting: tuple[int, int] | None = None
    """A block size, in elements, and the largest smaller one with which everything fits."""

    @property
    def low(self) -> int:
        """The bytes that the kernel certainly needs."""
        return sum(item.low for item in self.items)

    @property
    def usual(self) -> int:
        """The bytes that it needs at most, unless the compiler's own are unusually many."""
        return sum(item.high if item.usual is None else item.usual for item in self.items)

    @property
    def high(self) -> int:
        """The bytes that it needs at most."""
        return sum(item.high for item in self.items)
