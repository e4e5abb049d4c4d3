"""The terminal: colours where there are any, source lines with carets, tables, text folded to the width."""

import ast
import functools
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TextIO

type Style = Literal["bold", "dim", "red", "green", "yellow", "blue", "cyan"]

type _Node = ast.expr | ast.stmt | ast.arg

_CODES: dict[Style, int] = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36}
_SIGNS = {"✓": "+", "✗": "x", "·": ".", "…": "~", "─": "-", "→": ">"}
_ASCII = str.maketrans(_SIGNS)
WIDEST = 108


@dataclass(frozen=True)
class Screen:
    """Where text goes and what it can show. ``width`` in columns; 0: lines are not folded."""

    stream: TextIO
    colour: bool
    unicode: bool
    live: bool
    """Whether lines already written can be written over."""
    width: int

    def paint(self, text: str, *styles: Style) -> str:
        """The text in colour, where there is colour."""
        if not self.colour or not styles or not text:
            return text
        return f"\x1b[{';'.join(str(_CODES[s]) for s in styles)}m{text}\x1b[0m"

    def write(self, text: str = "", end: str = "\n") -> None:
        """Print, replacing signs that the stream's encoding lacks."""
        self.stream.write((text if self.unicode else _plain(text, self.stream)) + end)
        self.stream.flush()

    def narrow(self) -> "Screen":
        """The same screen, lines folded wherever the output goes."""
        return replace(self, width=self.width or WIDEST)

    def fold(self, text: str, indent: str = "", first: str | None = None) -> str:
        """The text in lines no wider than the screen; lines after the first start with ``indent``."""
        start = indent if first is None else first
        if not self.width or len(start) + len(text) <= self.width:
            return start + text
        return textwrap.fill(
            text,
            self.width,
            initial_indent=start,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )


def _plain(text: str, stream: TextIO) -> str:
    encoding = getattr(stream, "encoding", None) or "ascii"
    return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)


def screen(stream: TextIO | None = None, *, folded: bool = False) -> Screen:
    """The screen behind a stream. ``folded``: keep lines short even where the output is not a terminal."""
    out = sys.stdout if stream is None else stream
    terminal = out.isatty() and os.environ.get("TERM") != "dumb"
    colour = "NO_COLOR" not in os.environ and (terminal or bool(os.environ.get("FORCE_COLOR")))
    columns = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST) if terminal else WIDEST
    return Screen(out, colour, _shows_unicode(out), terminal, columns if terminal or folded else 0)


def _shows_unicode(stream: TextIO) -> bool:
    try:
        "".join(_SIGNS).encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def shown_path(file: str) -> str:
    """The path as the user would write it: relative where it is below the working directory."""
    try:
        return str(Path(file).resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file


@functools.lru_cache(maxsize=64)
def _source(file: str) -> tuple[str, ...]:
    try:
        return tuple(Path(file).read_text(encoding="utf-8", errors="replace").splitlines())
    except OSError:
        return ()


def source_line(file: str, line: int) -> str:
    """A line of a file (1-based), empty where there is none."""
    lines = _source(file)
    return lines[line - 1] if 0 < line <= len(lines) else ""


def span_end(file: str, line: int, column: int) -> int:
    """The column after the construct that starts at ``column`` (both 1-based), on that line; 0 if unknown.

    That is the smallest subscript, call or other compound that starts there, or else the name there.
    """
    best: tuple[int, int] | None = None
    for node in _nodes(file).get((line, column - 1), ()):
        end_line = node.end_lineno or line
        end = node.end_col_offset if end_line == line else len(source_line(file, line).encode())
        rank = 1 if isinstance(node, ast.Name | ast.Attribute) else 0
        if best is None or (rank, end or 0) < best:
            best = (rank, end or 0)
    return 0 if best is None else best[1] + 1


@functools.lru_cache(maxsize=64)
def _nodes(file: str) -> dict[tuple[int, int], list[_Node]]:
    try:
        tree = ast.parse("\n".join(_source(file)))
    except (SyntaxError, ValueError):
        return {}
    found: dict[tuple[int, int], list[_Node]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt | ast.arg):
            found.setdefault((node.lineno, node.col_offset), []).append(node)
    return found


def while_waiting[T](on: Screen, work: Callable[[], T], text: Callable[[], str]) -> T:
    """The result of ``work``. Meanwhile a live screen shows ``text()`` and the seconds, on one line."""
    with ThreadPoolExecutor(1) as thread:
        start = time.monotonic()
        future = thread.submit(work)
        while on.live and not future.done():
            line = f"{text()} {time.monotonic() - start:.0f} s"
            on.write(f"\r\x1b[K{on.paint(line[: on.width or WIDEST], 'dim')}", end="")
            wait([future], 0.5)
        if on.live:
            on.write("\r\x1b[K", end="")
        return future.result()


def excerpt(on: Screen, file: str, line: int, column: int, end: int = 0) -> list[str]:
    """The source line and carets below the columns ``column`` to ``end`` (1-based, exclusive); none if no source."""
    raw = source_line(file, line)
    if not raw.strip():
        return []
    indent = len(raw) - len(raw.lstrip())
    start = column - 1 if column else indent
    stop = (end or (span_end(file, line, column) if column else 0) or len(raw) + 1) - 1
    stop = max(min(stop, len(raw.rstrip())), start + 1)
    text = raw.strip()
    shift = start - indent
    if shift < 0:
        shift, stop = 0, max(stop, indent + 1)
    number = str(line)
    room = on.width - len(number) - 6 if on.width else 0
    if room and len(text) > room:
        text = text[: room - 1] + "…"
    carets = "^" * max(1, min(stop - start, len(text) - shift))
    bar = on.paint("|", "blue")
    return [
        f"  {on.paint(number, 'blue')} {bar} {text}",
        f"  {' ' * len(number)} {bar} {' ' * shift}{on.paint(carets, 'red', 'bold')}",
    ]


def table(on: Screen, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns padded to their widest cell; the last one is folded to the width of the screen."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head) - 1)]
    lead = "".join(f"{cell:<{width}}  " for cell, width in zip(head, widths, strict=False))
    lines = [on.paint(f"{lead}{head[-1]}".rstrip(), "bold")]
    for row in rows:
        start = "".join(f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=False))
        lines += on.fold(row[-1], " " * len(start), start).rstrip().splitlines()
    return lines
