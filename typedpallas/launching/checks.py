"""The one place where a launch asks the trace checker, and refuses what it refutes."""

from collections.abc import Callable
from typing import Any

from typedpallas.chips import Target
from typedpallas.diagnostics import PlacementError
from typedpallas.tracing import check_launch, declared


def check_traced(kernel: Callable[..., None], jaxpr: Any, target: Target | None) -> None:
    """Judge every kernel in a traced launch; ``kernel`` is the one whose annotations count.

    Raises:
        PlacementError: a rule is broken; what is open does not count.
    """
    declared.remember(kernel)
    refuted = [item for item in check_launch(jaxpr, target) if item.verdict == "refuted"]
    if refuted:
        raise PlacementError(refuted)
