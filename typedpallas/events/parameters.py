"""What a launch tells the compiler beside its kernel."""

from __future__ import annotations

from typing import Literal

from typedpallas.records import record


@record(frozen=True, kw_only=True)
class WrongParameters:
    """Compiler parameters that the backend does not take for this kernel."""

    kernel: str
    why: Literal["a dict", "no collective_id", "collective_id without barrier", "collective_id beside tag"]
    found: str
    """What was given, as messages write it."""
