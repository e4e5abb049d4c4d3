"""The one place where a launch asks the trace checker, and refuses what it refutes."""

from typing import Any

from typedpallas.chips import Target
from typedpallas.diagnostics import PlacementError


def check_traced(jaxpr: Any, target: Target | None) -> None:
    """Judge every kernel in a traced launch.

    Raises:
        PlacementError: a rule is broken; what is open does not count.
    """
    from typedpallas import tracing

    check_launch = getattr(tracing, "check_launch", None)
    if check_launch is None:
        return
    refuted = [item for item in check_launch(jaxpr, target) if item.verdict == "refuted"]
    if refuted:
        raise PlacementError(refuted)
