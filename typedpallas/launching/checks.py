"""The one place where a launch asks the trace checker, and refuses what it refutes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from typedpallas.chips import Target
from typedpallas.diagnostics import PlacementError
from typedpallas.tracing import check_launch, declared

_WANTED = ContextVar("typedpallas_checks_wanted", default=True)


@contextmanager
def left_to_the_compiler() -> Iterator[None]:
    """Inside, launches refuse nothing while they are traced, so that a vendor's compiler can be asked instead.

    What cannot even be laid out (sizes that are missing, patterns that do not fit) is refused all the same.
    """
    token = _WANTED.set(False)
    try:
        yield
    finally:
        _WANTED.reset(token)


def wanted() -> bool:
    """Whether launches check what they trace."""
    return _WANTED.get()


def check_traced(kernel: Callable[..., None], jaxpr: Any, target: Target | None) -> None:
    """Judge every kernel in a traced launch; ``kernel`` is the one whose annotations count.

    Raises:
        PlacementError: a rule is broken; what is open does not count.
    """
    declared.remember(kernel)
    refuted = dict.fromkeys(item for item in check_launch(jaxpr, target) if item.verdict == "refuted")
    if refuted:
        raise PlacementError(tuple(refuted))
