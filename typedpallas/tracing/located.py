"""An event of a traced kernel together with its line."""

from collections.abc import Callable, Hashable

from typedpallas.diagnostics import Place
from typedpallas.events import Event


class Located:
    """An event, where it is in the source, and the name of the kernel that has it.

    Most events are fine, and nobody asks for their lines: a function may stand for either, called when it is needed.
    """

    __slots__ = ("_event", "_place", "kernel", "kind")

    def __init__(
        self,
        event: Event | Callable[[], Event],
        place: Place | Callable[[], Place],
        kernel: str,
        kind: Hashable = None,
    ) -> None:
        """``kind``: events of one part of one kernel that have the same are judged alike."""
        self._event, self._place, self.kernel, self.kind = event, place, kernel, kind

    @property
    def event(self) -> Event:
        """What was seen."""
        if callable(self._event):
            self._event = self._event()
        return self._event

    @property
    def place(self) -> Place:
        """Where."""
        if callable(self._place):
            self._place = self._place()
        return self._place
