"""Sheets painted with matplotlib."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from typedpallas.drawing.sheets import Panel, Sheet
from typedpallas.events import MemoryUse

_COLOURS = matplotlib.colormaps["viridis"]
_WRONG = "#c62828"
_ACROSS = 3
"""Panels in a row."""
_PANEL = 3.4
"""Inches of a panel's side."""
_SIDE = 0.75 * _PANEL * 72
"""Points of a panel's side, without its margins."""
_LABELLED = 144
"""More blocks than these get no labels."""
_BAR = 1.15
"""Inches of a memory's bar, with its legend."""
_BUFFERS = matplotlib.colormaps["tab20"]
_UNITS = ((1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))


def save(found: Sequence[Sheet], path: Path) -> None:
    """Write one picture with every sheet, below each other."""
    heights = [_height(sheet) for sheet in found]
    with matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "typedpallas", "font.size": 9, "hatch.linewidth": 0.6}
    ):
        figure = Figure(figsize=(_ACROSS * _PANEL + 0.6, sum(heights)), layout="constrained")
        parts = figure.subfigures(len(found), 1, height_ratios=heights, squeeze=False)
        for part, sheet in zip(parts[:, 0], found, strict=True):
            _sheet(part, sheet)
        figure.savefig(path, dpi=120, facecolor="white", metadata={"Date": None} if path.suffix == ".svg" else None)


def _height(sheet: Sheet) -> float:
    return 0.9 + _rows(sheet) * (_PANEL + 0.3) + _BAR * len(sheet.uses) + 0.18 * len(_words(sheet))


def _rows(sheet: Sheet) -> int:
    return -(-len(sheet.panels) // _ACROSS)


def _words(sheet: Sheet) -> list[str]:
    lines = [f"not drawn: {line}" for line in sheet.unplaced]
    for item in dict.fromkeys(sheet.findings):
        where = f"{Path(item.file).name}:{item.line}: " if item.file else ""
        text = f"{where}{item.verdict}: {item.message}  [{item.rule}]"
        lines += textwrap.wrap(text, 118, subsequent_indent="    ", break_on_hyphens=False)
        if item.witness:
            lines += textwrap.wrap(item.witness, 112, initial_indent="    ", subsequent_indent="    ")
    return lines or ["nothing is refuted or open"]


def _sheet(figure: Any, sheet: Sheet) -> None:
    figure.suptitle(_title(sheet), fontsize=11, fontweight="bold", x=0.01, ha="left")
    words = _words(sheet)
    ratios = [*[_PANEL + 0.3] * _rows(sheet), *[_BAR] * len(sheet.uses), 0.18 * len(words) + 0.1]
    grid = figure.add_gridspec(len(ratios), _ACROSS, height_ratios=ratios)
    for number, panel in enumerate(sheet.panels):
        _panel(figure.add_subplot(grid[number // _ACROSS, number % _ACROSS]), panel, max(sheet.steps, 1))
    for number, use in enumerate(sheet.uses):
        _bar(figure.add_subplot(grid[_rows(sheet) + number, :]), use)
    text = figure.add_subplot(grid[-1, :])
    text.axis("off")
    wrong = any(item.verdict == "refuted" for item in sheet.findings)
    text.text(0, 1, "\n".join(words), va="top", color=_WRONG if wrong else "#333", transform=text.transAxes)


def _title(sheet: Sheet) -> str:
    where = f" on {sheet.target}" if sheet.target else ""
    if not sheet.grid:
        return f"{sheet.kernel}{where}"
    extents = " x ".join("?" if extent is None else str(extent) for extent in sheet.grid)
    how = f" ({', '.join(sheet.semantics)})" if sheet.semantics else ""
    return f"{sheet.kernel}{where}: grid {extents}{how}, {sheet.steps or 'an unknown number of'} steps"


def _panel(axes: Axes, panel: Panel, steps: int) -> None:
    rows, columns = panel.shape
    for block in panel.blocks:
        outside = panel.is_outside(block)
        colour: Any = "none" if outside else _COLOURS(block.steps[0] / steps)
        _cell(axes, panel, block.row, block.column, colour, wrong=outside)
        if len(panel.blocks) <= _LABELLED:
            dark = not outside and block.steps[0] < steps * 0.6
            _label(axes, panel, block.row, block.column, block.label, "white" if dark else "black")
    if panel.role == "out":
        for row, column in panel.never:
            _cell(axes, panel, row, column, "none", wrong=True)
            if len(panel.never) <= _LABELLED:
                _label(axes, panel, row, column, "never", _WRONG)
    axes.add_patch(Rectangle((0, 0), columns, rows, fill=False, edgecolor="black", linewidth=1.6))
    low = min([0, *(block.row * panel.cell[0] for block in panel.blocks)])
    high = max([rows, *((block.row + 1) * panel.cell[0] for block in panel.blocks)])
    left = min([0, *(block.column * panel.cell[1] for block in panel.blocks)])
    right = max([columns, *((block.column + 1) * panel.cell[1] for block in panel.blocks)])
    axes.set_xlim(left - 0.02 * (right - left), right + 0.02 * (right - left))
    axes.set_ylim(high + 0.02 * (high - low), low - 0.02 * (high - low))
    axes.set_xticks([0, columns])
    axes.set_yticks([0, rows])
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_title(_caption(panel), fontsize=8.5)


def _caption(panel: Panel) -> str:
    array = ", ".join(map(str, panel.array))
    block = ", ".join("squeezed" if dim == "squeezed" else "?" if dim is None else str(dim) for dim in panel.block)
    lines = [f"{panel.role} {panel.name}: {panel.dtype}[{array}]", f"blocks of ({block})"]
    if panel.shown:
        lines.append(f"shown: {panel.shown}")
    return "\n".join(lines)


def _cell(axes: Axes, panel: Panel, row: int, column: int, colour: Any, *, wrong: bool) -> None:
    corner = (column * panel.cell[1], row * panel.cell[0])
    patch = Rectangle(corner, panel.cell[1], panel.cell[0], facecolor=colour, linewidth=0.8)
    patch.set_edgecolor(_WRONG if wrong else "white")
    if wrong:
        patch.set_hatch("////")
    axes.add_patch(patch)


def _label(axes: Axes, panel: Panel, row: int, column: int, text: str, colour: str) -> None:
    rows, columns = panel.counts
    x, y = (column + 0.5) * panel.cell[1], (row + 0.5) * panel.cell[0]
    size = max(3.0, min(9.0, _SIDE / columns / (0.62 * len(text)), 0.7 * _SIDE / rows))
    axes.text(x, y, text, ha="center", va="center", color=colour, fontsize=size, clip_on=True)


def _bar(axes: Axes, use: MemoryUse) -> None:
    at = 0
    for number, item in enumerate(item for item in use.items if item.high):
        colour = _BUFFERS(number % 20)
        size = _bytes(item.high) if item.low == item.high else f"{_bytes(item.low)} to {_bytes(item.high)}"
        axes.barh(0, item.low, left=at, color=colour, edgecolor="white", height=0.7)
        if item.low < item.high:
            axes.barh(0, item.high - item.low, left=at + item.low, color=colour, alpha=0.45, hatch="///", height=0.7)
        axes.plot([], [], "s", color=colour, label=f"{item.name}: {size}")
        at += item.high
    legend = axes.legend(ncols=4, loc="upper left", bbox_to_anchor=(0, -0.35), frameon=False, fontsize=7.5)
    legend.set_in_layout(True)
    over = use.low > use.limit
    axes.axvline(use.limit, color=_WRONG, linewidth=1.5)
    axes.set_xlim(0, 1.08 * max(use.high, use.limit))
    axes.set_yticks([])
    ticks = np.linspace(0, use.limit, 5)
    axes.set_xticks(ticks, [_bytes(int(tick)) for tick in ticks], fontsize=8)
    needs = _bytes(use.low) if use.low == use.high else f"{_bytes(use.low)} to {_bytes(use.high)}"
    title = f"{use.space.upper()}: {needs} of {_bytes(use.limit)} ({use.limit_from.replace('`', '')})"
    axes.set_title(title, loc="left", fontsize=8.5, color=_WRONG if over else "black")
    for side in axes.spines.values():
        side.set_visible(False)


def _bytes(count: int) -> str:
    unit, name = next((u for u in _UNITS if count >= u[0]), _UNITS[-1])
    return f"{count / unit:.4g} {name}"
