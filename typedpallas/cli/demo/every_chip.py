"""Step 2: three kernels by every target, each cell from the vendor's own compiler."""

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from typedpallas.cli.asking import Answer, answer
from typedpallas.cli.demo import heading
from typedpallas.cli.terminal import Screen, Style

_TITLE = (
    "Three kernels on every chip, each cell from that chip's own compiler; none of the chips is here. "
    "The blocks of matmul are larger than some chips can hold, on purpose"
)
_CELL = 16
_SHORT: dict[str, tuple[str, Style]] = {
    "refused": ("refused", "red"),
    "crashed": ("crashed", "red"),
    "timeout": ("no verdict", "red"),
    "unavailable": ("not installed", "yellow"),
}
_BACKENDS = {"mosaic_tpu": "Mosaic TPU", "mosaic_gpu": "Mosaic GPU", "triton": "Triton"}


@dataclass(frozen=True)
class Cell:
    """One kernel for one target through one backend."""

    kernel: str
    target: str
    backend: str
    function: Any
    avals: tuple[Any, ...]

    @property
    def row(self) -> tuple[str, str]:
        """Target and backend."""
        return self.target, self.backend


class Table:
    """The cells and the answers that have come so far; a thread asks the compilers."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = tuple(cells)
        self.answers: dict[Cell, Answer] = {}
        self.failure: BaseException | None = None
        self.finished = False
        self.news = threading.Condition()

    @property
    def kernels(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(dict.fromkeys(cell.kernel for cell in self.cells))

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """Targets and backends, in the cells' order."""
        return tuple(dict.fromkeys(cell.row for cell in self.cells))

    def of_row(self, row: tuple[str, str]) -> list[Cell]:
        """The cells of a row."""
        return [cell for cell in self.cells if cell.row == row]

    def start(self, workers: int) -> Self:
        """Begin to ask."""
        threading.Thread(target=self._ask, args=(workers,), daemon=True, name="typedpallas-demo").start()
        return self

    def _ask(self, workers: int) -> None:
        from typedpallas.compilers import Request, compile_many
        from typedpallas.launching.checks import left_to_the_compiler

        try:
            requests = [Request(cell.function, cell.avals, cell.target) for cell in self.cells]
            with left_to_the_compiler():
                compile_many(requests, workers=workers, progress=self._known)
        except BaseException as failure:  # handed to the thread that shows the table
            self.failure = failure
        with self.news:
            self.finished = True
            self.news.notify_all()

    def _known(self, index: int, outcome: Any) -> None:
        with self.news:
            self.answers[self.cells[index]] = answer(outcome)
            self.news.notify_all()

    def progress(self) -> str:
        """How far the compilers are."""
        return f"compilers: {len(self.answers)} of {len(self.cells)};"

    def wait(self, seconds: float) -> bool:
        """Wait for news at most so long; whether there is more to come."""
        with self.news:
            if not self.finished:
                self.news.wait(seconds)
            return not self.finished


class Footnotes:
    """Reasons by number, each once."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, list[Cell]]] = {}

    def number(self, cell: Cell, reason: str) -> int:
        """The number of a reason, with the cell noted below it."""
        number, cells = self._found.setdefault(reason, (len(self._found) + 1, []))
        if cell not in cells:
            cells.append(cell)
        return number

    def lines(self, on: Screen) -> Iterator[str]:
        """The notes, folded."""
        for reason, (number, cells) in self._found.items():
            kernels = ", ".join(dict.fromkeys(cell.kernel for cell in cells))
            targets = ", ".join(dict.fromkeys(cell.target for cell in cells))
            start = f"({number}) "
            yield on.fold(f"{kernels} on {targets}: {reason}", " " * len(start), start)


def show(on: Screen, table: Table) -> bool:
    """Print the table as it fills; whether no compiler crashed, hung or failed to be asked.

    Raises:
        BaseException: what asking the compilers raised.
    """
    heading(on, 2, _TITLE)
    start = time.monotonic()
    live = on.live and shutil.get_terminal_size().lines > len(table.rows) + 4
    notes = _live(on, table, start) if live else _streamed(on, table)
    if table.failure is not None:
        raise table.failure
    on.write()
    for line in notes.lines(on):
        on.write(line)
    on.write(_sum(table))
    return all(item.kind in ("", "refused", "unavailable") for item in table.answers.values())


def _live(on: Screen, table: Table, start: float) -> Footnotes:
    """Draw the table over itself until it is full."""
    drawn = 0
    while True:
        more = table.wait(0.2)
        notes = Footnotes()
        lines = [head(on, table), *(row(on, table, key, notes) for key in table.rows)]
        if more:
            done = f"{len(table.answers)} of {len(table.cells)}, {time.monotonic() - start:.0f} s ..."
            lines.append(on.paint(done, "dim"))
        back = f"\x1b[{drawn}F\x1b[J" if drawn else ""
        on.write(back + "\n".join(lines))
        drawn = len(lines)
        if not more:
            return notes


def _streamed(on: Screen, table: Table) -> Footnotes:
    """Print each row when it is full."""
    notes = Footnotes()
    on.write(head(on, table))
    left = list(table.rows)
    more = True
    while more:
        more = table.wait(1.0)
        full = [key for key in left if not more or all(cell in table.answers for cell in table.of_row(key))]
        for key in full:
            on.write(row(on, table, key, notes))
        left = [key for key in left if key not in full]
    return notes


def head(on: Screen, table: Table) -> str:
    """The names of the columns."""
    names = "".join(f"{name:<{_CELL}}  " for name in table.kernels)
    return on.paint(f"{'target':<8}  {'backend':<10}  {names}".rstrip(), "bold")


def row(on: Screen, table: Table, key: tuple[str, str], notes: Footnotes) -> str:
    """A row as far as it is known."""
    target, backend = key
    text = f"{target:<8}  {_BACKENDS[backend]:<10}  "
    by_kernel = {cell.kernel: cell for cell in table.of_row(key)}
    for kernel in table.kernels:
        cell = by_kernel.get(kernel)
        short, style = _short(cell, table.answers.get(cell) if cell else None, notes)
        text += on.paint(f"{short:<{_CELL}}", style) + "  "
    return text.rstrip()


def _short(cell: Cell | None, item: Answer | None, notes: Footnotes) -> tuple[str, Style]:
    if cell is None:
        return "", "dim"
    if item is None:
        return "...", "dim"
    if not item.kind:
        return f"compiled {item.seconds:5.2f} s", "green"
    text, style = _SHORT[item.kind]
    return f"{text} ({notes.number(cell, item.reason)})", style


def _sum(table: Table) -> str:
    compiled = sum(not item.kind for item in table.answers.values())
    cached = sum(item.cached for item in table.answers.values())
    text = f"{compiled} of {len(table.cells)} compiled"
    return f"{text}; {cached} answers are remembered from an earlier run, with their times then" if cached else text
