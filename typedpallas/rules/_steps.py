"""How messages write grid steps and elements."""

from collections.abc import Sequence


def shown(values: Sequence[int]) -> str:
    """A tuple as Python writes it."""
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def at_step(step: Sequence[int], otherwise: str = "") -> str:
    """``" at grid step (0, 1)"``; for a kernel without a grid ``otherwise``."""
    if step:
        return f" at grid step {shown(step)}"
    return f" at {otherwise}" if otherwise else ""


USES = {
    "load": "a load from it",
    "store": "a store to it",
    "copy from": "another copy from it",
    "copy to": "another copy to it",
}
"""What is done with a buffer, in words."""
