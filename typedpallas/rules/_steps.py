"""How messages write grid steps and elements."""

from collections.abc import Callable, Sequence

from typedpallas.events import Given
from typedpallas.rules.base import Finding, Rule


def shown(values: Sequence[int]) -> str:
    """A tuple as Python writes it."""
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def at_step(step: Sequence[int], otherwise: str = "") -> str:
    """``" at grid step (0, 1)"``; for a kernel without a grid ``otherwise``."""
    if step:
        return f" at grid step {shown(step)}"
    return f" at {otherwise}" if otherwise else ""


def where(given: Given | None) -> str:
    """The case in which something holds, before the words that say it: ``"where `n[0]` is 0, "``."""
    if given is None:
        return ""
    at = f" of {given.name}" if given.name else ""
    if given.what == "number":
        return f"where `{given.name}` is {given.value}, "
    if given.what == "turns":
        return f"where the loop{at} makes {given.value} turn{'s' if given.value != 1 else ''}, "
    way = {0: "does not hold", 1: "holds"}.get(given.value, f"is {given.value}")
    return f"where the condition{at} {way}, "


def verdict(rule: Rule, given: Given | None) -> Callable[..., Finding]:
    """How a rule says it: as certain, or as what hangs on values that may never come."""
    return rule.refuted if given is None or given.certain else rule.open


def notes(given: Given | None, shared: bool = False) -> tuple[str, ...]:
    """What would make it right, where that is not known; why it holds of a semaphore that other devices signal."""
    why = "every device runs the kernel, so each gets as much on it as each sends, on average"
    return (*_unless(given), *([why] if shared else ()))


def _unless(given: Given | None) -> tuple[str, ...]:
    if given is None or given.certain:
        return ()
    return (f"only if that never comes is it right: {where(given).removeprefix('where ').removesuffix(', ')}",)


USES = {
    "load": "a load from it",
    "store": "a store to it",
    "copy from": "another copy from it",
    "copy to": "another copy to it",
}
"""What is done with a buffer, in words."""
