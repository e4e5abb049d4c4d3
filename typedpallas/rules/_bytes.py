"""Words for amounts of memory."""

from typedpallas.events import MemoryUse

_SHOWN = 3
_MIB = 1 << 20


def written(count: int) -> str:
    """Bytes as people read them: ``17.22 MiB``, ``96.0 KiB``, ``232448 bytes``."""
    if count >= _MIB:
        return f"{count / _MIB:.2f} MiB"
    return f"{count / 1024:.1f} KiB" if count >= 1024 else f"{count} bytes"


def largest(event: MemoryUse) -> str:
    """The items that cost most, with how their cost comes about."""
    items = sorted(event.items, key=lambda item: -item.high)
    texts = [f"`{item.name}` takes {written(item.high)}, {item.how}" for item in items[:_SHOWN]]
    rest = sum(item.high for item in items[_SHOWN:])
    return "; ".join([*texts, *([f"everything else {written(rest)}"] if rest else [])])
