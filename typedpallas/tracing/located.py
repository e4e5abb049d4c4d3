"""An event of a traced kernel together with its line."""

from dataclasses import dataclass

from typedpallas.diagnostics import Place
from typedpallas.events import Event


@dataclass(frozen=True)
class Located:
    """An event, where it is in the source, and the name of the kernel that has it."""

    event: Event
    place: Place
    kernel: str
