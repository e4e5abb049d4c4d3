"""What a picture of a kernel shows, as numbers: blocks by the steps that visit them, bytes by buffer."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from typedpallas.chips import Target
from typedpallas.diagnostics import Diagnostic
from typedpallas.events import Context, MemoryUse
from typedpallas.tracing import memory
from typedpallas.tracing.check import Report
from typedpallas.tracing.grid import index_maps, maps
from typedpallas.tracing.grid import values as grid_values
from typedpallas.tracing.walk import KernelCall, Operand

type Ints = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Block:
    """One block of an array: its row and column among the blocks, and the steps of the grid that visit it."""

    row: int
    column: int
    steps: tuple[int, ...]

    @property
    def label(self) -> str:
        """The steps as few words: ``0``, ``0-3`` where they follow on each other, ``0, 4, 8``, ``0, 4 .. 60``."""
        first, last = self.steps[0], self.steps[-1]
        if first == last:
            return str(first)
        if last - first == len(self.steps) - 1:
            return f"{first}-{last}"
        return ", ".join(map(str, self.steps)) if len(self.steps) < 4 else f"{first}, {self.steps[1]} .. {last}"


@dataclass(frozen=True)
class Panel:
    """One array under its blocks. Sizes in elements; arrays of more dims show the last two."""

    name: str
    role: str
    """``in`` or ``out``."""
    array: tuple[int, ...]
    block: tuple[int | str | None, ...]
    dtype: str
    shape: tuple[int, int]
    """Rows and columns of what is shown."""
    cell: tuple[int, int]
    """Rows and columns of a block."""
    blocks: tuple[Block, ...]
    """Those that a step visits, outside of the array too."""
    known: bool
    """Whether every step of the grid was followed."""
    shown: str = ""
    """Which part of an array of more than two dims is shown."""

    @property
    def counts(self) -> tuple[int, int]:
        """Blocks along rows and columns, a partial last one counted."""
        return -(-self.shape[0] // self.cell[0]), -(-self.shape[1] // self.cell[1])

    def is_outside(self, block: Block) -> bool:
        """Whether no element of the block lies in the array."""
        rows, columns = self.counts
        return not (0 <= block.row < rows and 0 <= block.column < columns)

    @property
    def never(self) -> list[tuple[int, int]]:
        """Rows and columns of the blocks that no step visits; empty where not every step was followed."""
        if not self.known:
            return []
        seen = {(block.row, block.column) for block in self.blocks}
        rows, columns = self.counts
        return [(row, column) for row in range(rows) for column in range(columns) if (row, column) not in seen]


@dataclass(frozen=True)
class Sheet:
    """One kernel on one chip, or on any."""

    kernel: str
    target: str | None
    grid: tuple[int | None, ...]
    semantics: tuple[str, ...]
    panels: tuple[Panel, ...]
    unplaced: tuple[str, ...]
    """Operands whose blocks follow from data, or that have none, as a line each."""
    uses: tuple[MemoryUse, ...]
    findings: tuple[Diagnostic, ...]

    @property
    def steps(self) -> int:
        """The steps of the grid; 0 where they are not known."""
        return 0 if None in self.grid else math.prod(extent or 0 for extent in self.grid)


def sheets(report: Report, target: Target | None) -> Iterator[Sheet]:
    """One sheet for each kernel of a report, which must be about that target."""
    context = Context(target=target)
    for kernel in dict.fromkeys(report.kernels):
        panels, unplaced = [], []
        for operand in kernel.operands:
            if operand.role == "scratch":
                continue
            panel = _panel(kernel, operand)
            if panel is None:
                unplaced.append(_line(operand))
            else:
                panels.append(panel)
        yield Sheet(
            kernel=kernel.name,
            target=target.name if target else None,
            grid=kernel.grid,
            semantics=index_maps.semantics(kernel) or (),
            panels=tuple(panels),
            unplaced=tuple(unplaced),
            uses=tuple(u.event for u in memory.events(kernel, context) if isinstance(u.event, MemoryUse)),
            findings=tuple(item for item in report.diagnostics if item.kernel in ("", kernel.name)),
        )


def _line(operand: Operand) -> str:
    shape = "x".join("?" if extent is None else str(extent) for extent in operand.array or operand.shape or ())
    why = {"prefetch": "a table that index maps may read"}.get(operand.role, "blocks that follow from data")
    if operand.mapping is None and operand.role != "prefetch":
        why = "whole, no blocks"
    return f"{operand.name}: {operand.dtype or 'any type'}[{shape}], {why}"


def _panel(kernel: KernelCall, operand: Operand) -> Panel | None:
    found = index_maps.map_of(kernel, operand)
    if found is None or 0 in found.array or not found.array:
        return None
    at, known = grid_values.points(found.grid)
    reached = maps.at_points(found, at)
    columns = [np.broadcast_to(column, (len(at),)) for column in reached if column is not None]
    if len(columns) != len(reached):
        return None
    return _placed(operand, found, np.stack(columns, axis=1), known)


def _placed(operand: Operand, found: maps.Map, where: Ints, known: bool) -> Panel:
    """The last two dims of the array, in the part of it that the first step visits."""
    lead = where[:, :-2]
    same = (lead == lead[0]).all(axis=1)
    steps, pairs = np.flatnonzero(same), where[same][:, -2:]
    if pairs.shape[1] == 1:
        pairs = np.concatenate([np.zeros_like(pairs), pairs], axis=1)
    unique, inverse = np.unique(pairs, axis=0, return_inverse=True)
    by_block: list[list[int]] = [[] for _ in unique]
    for step, number in zip(steps.tolist(), inverse.ravel().tolist(), strict=True):
        by_block[number].append(step)
    blocks = [Block(int(row), int(column), tuple(own)) for (row, column), own in zip(unique, by_block, strict=True)]
    shape, cell = (1, 1, *found.array)[-2:], (1, 1, *found.block)[-2:]
    starts = [int(index) * size for index, size in zip(lead[0], found.block, strict=False)]
    part = ", ".join(
        str(start) if size == 1 else f"{start}:{start + size}"
        for start, size in zip(starts, found.block, strict=False)
    )
    return Panel(
        name=operand.name,
        role=operand.role,
        array=found.array,
        block=operand.block or (),
        dtype=operand.dtype or "",
        shape=(shape[0], shape[1]),
        cell=(cell[0], cell[1]),
        blocks=tuple(blocks),
        known=known,
        shown=f"{operand.name}[{part}, :, :]" if part else "",
    )
