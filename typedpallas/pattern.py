"""The launch pattern: ``"(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)"``, parsed once, applied separately.

``(i BM)`` cuts a dim into blocks of ``BM`` along grid axis ``i``; a lone grid axis is squeezed; a lone dim or
number is whole. From the pattern follow the grid, every block, every index map and what is true of them by
construction.
"""

import functools
import re
from collections.abc import Sequence
from typing import NoReturn

from typedpallas.records import record


class PatternError(ValueError):
    """The pattern means nothing; the message shows it with a caret under the token, at ``span`` of the pattern."""

    def __init__(self, message: str, span: tuple[int, int] | None = None) -> None:
        super().__init__(message)
        self.span = span


@record(frozen=True)
class Cut:
    """``(i BM)``: blocks of ``block`` elements along grid axis ``axis``."""

    axis: str
    block: str | int

    def __str__(self) -> str:
        return f"({self.axis} {self.block})"


@record(frozen=True)
class Step:
    """``i``: one element along grid axis ``axis``, squeezed away in the kernel."""

    axis: str

    def __str__(self) -> str:
        return self.axis


@record(frozen=True)
class Whole:
    """``D`` or ``128``: the whole dim in every block."""

    dim: str | int

    def __str__(self) -> str:
        return str(self.dim)


type Part = Cut | Step | Whole


@record(frozen=True)
class Operand:
    """One operand's parts, in the order of its array's dims."""

    parts: tuple[Part, ...]

    @functools.cached_property
    def axes(self) -> frozenset[str]:
        """The grid axes that it depends on."""
        return frozenset(part.axis for part in self.parts if not isinstance(part, Whole))

    @functools.cached_property
    def windows(self) -> tuple[tuple[str | int, int], ...]:
        """What the kernel sees: (block size or dim, position in the array) of each part that is not squeezed."""
        kept = [(part, i) for i, part in enumerate(self.parts) if not isinstance(part, Step)]
        return tuple((part.block if isinstance(part, Cut) else part.dim, i) for part, i in kept)

    @functools.cached_property
    def text(self) -> str:
        """The operand as a pattern writes it."""
        return " ".join(map(str, self.parts))

    def __str__(self) -> str:
        return self.text


@record(frozen=True)
class Pattern:
    """A whole launch: ``grid`` axes in order, the operands read and the operands written."""

    text: str
    grid: tuple[str, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]

    @property
    def sequential(self) -> tuple[str, ...]:
        """The grid axes that some output lacks: its block stays while they run."""
        return tuple(axis for axis in self.grid if any(axis not in out.axes for out in self.outputs))

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of block sizes, in order of appearance."""
        cuts = [part for operand in self.inputs + self.outputs for part in operand.parts if isinstance(part, Cut)]
        return tuple(dict.fromkeys(cut.block for cut in cuts if isinstance(cut.block, str)))

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of whole dims, in order of appearance."""
        parts = [part for operand in self.inputs + self.outputs for part in operand.parts]
        return tuple(dict.fromkeys(p.dim for p in parts if isinstance(p, Whole) and isinstance(p.dim, str)))


@record(frozen=True)
class _Token:
    text: str
    start: int


_TOKEN = re.compile(r"->|[(),]|[A-Za-z_]\w*|\d+|\S")


@functools.cache
def parse(text: str, grid: str | tuple[str, ...] = "") -> Pattern:
    """Parse a pattern whose grid axes are the names in ``grid``, in grid order.

    Raises:
        PatternError: the pattern or the grid means nothing; the token is shown.
    """
    axes = tuple(grid.split()) if isinstance(grid, str) else grid
    return _Parser(text, _checked_axes(text, axes)).pattern()


def _checked_axes(text: str, axes: tuple[str, ...]) -> tuple[str, ...]:
    for axis in axes:
        if not axis.isidentifier():
            raise PatternError(f"grid axis `{axis}` is not a name")
        if axes.count(axis) > 1:
            raise PatternError(f"grid axis `{axis}` is listed twice")
    names = {token.group() for token in _TOKEN.finditer(text)}
    for axis in axes:
        if axis not in names:
            raise PatternError(f"grid axis `{axis}` occurs nowhere in the pattern `{text}`")
    return axes


class _Parser:
    def __init__(self, text: str, grid: tuple[str, ...]) -> None:
        self.text = text
        self.grid = grid
        self.tokens = [_Token(m.group(), m.start()) for m in _TOKEN.finditer(text)]
        self.position = 0

    def fail(self, message: str, token: _Token | None = None) -> NoReturn:
        start, width = (token.start, len(token.text)) if token else (len(self.text), 1)
        picture = f"  {self.text}\n  {' ' * start}{'^' * width}"
        raise PatternError(f"{message}\n{picture}", (start, start + width))

    @property
    def next(self) -> _Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def take(self) -> _Token:
        token = self.next
        if token is None:
            self.fail("the pattern ends too early")
        self.position += 1
        return token

    def pattern(self) -> Pattern:
        arrows = [token for token in self.tokens if token.text == "->"]
        if not arrows:
            self.fail("expected `->` between the inputs and the outputs")
        if len(arrows) > 1:
            self.fail("a pattern has one `->`", arrows[1])
        inputs = self.operands("->") if self.tokens[0].text != "->" else ()
        self.take()
        outputs = self.operands(None)
        return Pattern(self.text, self.grid, inputs, outputs)

    def operands(self, end: str | None) -> tuple[Operand, ...]:
        found = [self.operand(end)]
        while self.next is not None and self.next.text == ",":
            self.take()
            found.append(self.operand(end))
        return tuple(found)

    def operand(self, end: str | None) -> Operand:
        parts: list[Part] = []
        while self.next is not None and self.next.text not in (",", end):
            parts.append(self.part())
        if not parts:
            self.fail("expected an operand here (write `1` for a single element)", self.next)
        self.check_repeats(parts)
        return Operand(tuple(parts))

    def part(self) -> Part:
        token = self.take()
        if token.text == "(":
            return self.cut(token)
        if token.text.isdigit():
            return Whole(self.number(token))
        if token.text.isidentifier():
            return Step(token.text) if token.text in self.grid else Whole(token.text)
        self.fail(f"unexpected `{token.text}`", token)

    def cut(self, opening: _Token) -> Cut:
        inside: list[_Token] = []
        while (token := self.next) is not None and (token.text.isidentifier() or token.text.isdigit()):
            inside.append(self.take())
        if token is None or token.text != ")":
            self.fail("this group is not closed", opening)
        self.take()
        if len(inside) != 2:
            self.fail("a group holds a grid axis and a block size, like `(i BM)`", opening)
        axis, block = inside
        if axis.text not in self.grid:
            self.fail(f"`{axis.text}` is not a grid axis ({self.axes_text()}); a group starts with one", axis)
        if block.text in self.grid:
            self.fail(f"`{block.text}` is a grid axis; a group ends with a block size", block)
        return Cut(axis.text, self.number(block) if block.text.isdigit() else block.text)

    def number(self, token: _Token) -> int:
        if int(token.text) < 1:
            self.fail("a size is at least 1", token)
        return int(token.text)

    def axes_text(self) -> str:
        return f"grid axes: {', '.join(self.grid)}" if self.grid else "the launch has no grid"

    def check_repeats(self, parts: Sequence[Part]) -> None:
        axes = [part.axis for part in parts if not isinstance(part, Whole)]
        for axis in axes:
            if axes.count(axis) > 1:
                self.fail(f"grid axis `{axis}` occurs twice in one operand", self.tokens[self.position - 1])
