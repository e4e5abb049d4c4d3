"""JAX's own refusal of a constant index beyond a ref's end, as the slice that it is about."""

import re
from collections.abc import Iterator
from types import FrameType
from typing import Any

from typedpallas.events import Slice, SlicePart, Step

_WORDS = re.compile(
    r"Out of bound (?P<what>slice|indexer): (?:start|idx)=(?P<start>\d+)"
    r"(?:, size=(?P<size>\d+), stride=(?P<stride>\d+))?, dim=(?P<extent>\d+)"
)


def event(error: BaseException, words: str, name: str) -> Slice | None:
    """The slice of ``name`` that JAX refuses; none if the error is about something else."""
    found = _WORDS.search(words)
    if found is None:
        return None
    part = SlicePart(
        axis=_axis(error),
        extent=int(found["extent"]),
        start=int(found["start"]),
        size=int(found["size"] or 1),
        stride=int(found["stride"] or 1),
        squeezed=found["what"] == "indexer",
        outside=Step(at={}, start=int(found["start"])),
    )
    return Slice(name=name, op="view", space=None, dtype=None, parts=(part,), laid_out=False)


def _axis(error: BaseException) -> int | None:
    """Which part of the index JAX was looking at when it raised, off the locals of its own check."""
    for frame in _frames(error):
        names: dict[str, Any] = frame.f_locals
        indices = getattr(names.get("self"), "indices", None)
        if frame.f_code.co_name == "__post_init__" and isinstance(indices, tuple) and "idx" in names:
            return next((axis for axis, index in enumerate(indices) if index is names["idx"]), None)
    return None


def _frames(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next
