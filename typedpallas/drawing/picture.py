"""`tp.draw`: a picture of what a function's kernels do."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from typedpallas import chips
from typedpallas.compilers.ambient import target_context
from typedpallas.drawing.sheets import Sheet, sheets
from typedpallas.tracing.check import Report, check

SUFFIXES = (".svg", ".png", ".pdf")


class MissingMatplotlib(ImportError):
    """Pictures are painted with matplotlib, which is not installed."""

    def __init__(self) -> None:
        super().__init__('pictures are painted with matplotlib: pip install "typedpallas[draw]"')


def draw(fn: Callable[..., Any], *avals: Any, file: str | Path, target: str | None = None) -> Report:
    """Paint every kernel that ``fn`` launches on operands like ``avals``, and judge it; nothing is compiled or run.

    Each array is shown under its blocks, coloured by the step of the grid that first visits them and labelled with
    the steps; blocks outside of the array and blocks that no step visits are hatched. Below: what the kernel takes of
    on-chip memory on the target, in bytes by buffer, and what the rules say.

    Args:
        fn: any function that JAX traces, or a launch.
        avals: as for `tp.check`.
        file: where the picture goes: ``.svg``, ``.png`` or ``.pdf``.
        target: a name from `tp.targets()`; without one memory is not shown.

    Raises:
        MissingMatplotlib: matplotlib is not installed.
        ValueError: the file's suffix is none of these, or ``fn`` launches no kernel.
        typedpallas.UnknownTarget: no such target.
    """
    path = Path(file)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"a picture is one of {', '.join(SUFFIXES)}; found `{path.name}`")
    judge = getattr(fn, "check", None)
    report: Report = judge(*avals, target=target) if judge is not None else check(fn, *avals, target=target)
    found = seen(report, target)
    if not found:
        raise ValueError(f"`{getattr(fn, '__name__', fn)}` launches no kernel on these arguments")
    paint(found, path)
    return report


def seen(report: Report, target: str | None) -> list[Sheet]:
    """The sheets of a report about that target."""
    chip = None if target is None else chips.get(target)
    with target_context(chip) if chip is not None else nullcontext():
        return list(sheets(report, chip))


def paint(found: list[Sheet], path: Path) -> None:
    """Write the picture.

    Raises:
        MissingMatplotlib: matplotlib is not installed.
    """
    try:
        from typedpallas.drawing import painting
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "matplotlib":
            raise
        raise MissingMatplotlib from None
    painting.save(found, path)
