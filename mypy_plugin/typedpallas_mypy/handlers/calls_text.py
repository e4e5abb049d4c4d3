"""A pattern as it stands in the source: its text, and the place of each operand, part and token in it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from mypy import nodes as n
from mypy.types import Instance, LiteralType, get_proper_type

from typedpallas.pattern import Operand
from typedpallas.records import record
from typedpallas_mypy.handlers.calls_source import Source, arguments, function_name

_OPERAND = re.compile(r"[^\s,>-](?:[^,>-]*[^\s,>-])?")
_PART = re.compile(r"\([^)]*\)|[^\s,()]+")


@record(frozen=True)
class Piece:
    """One text of a pattern: the whole, or an item of a sequence. ``start`` is where it begins in the whole."""

    text: str
    start: int
    node: n.Expression
    """Where to point at: the literal, or the expression that stands for it."""
    spec: n.CallExpr | None = None
    """The call of `tp.spec` that it comes from."""

    def place(self, start: int, stop: int) -> n.Context:
        """The characters from ``start`` to ``stop`` of the whole pattern; the node where they cannot be told."""
        literal = self.node
        inside = isinstance(literal, n.StrExpr) and literal.end_column == literal.column + len(self.text) + 2
        if not inside or literal.end_line != literal.line or not self.start <= start <= self.start + len(self.text):
            return literal
        place = n.Context()
        place.line = place.end_line = literal.line
        place.column = literal.column + 1 + start - self.start
        place.end_column = min(literal.column + 1 + stop - self.start, literal.end_column or 0)
        return place


@record(frozen=True)
class Written:
    """A pattern as written."""

    text: str
    pieces: tuple[Piece, ...]
    node: n.Expression

    def place(self, start: int, stop: int) -> n.Context:
        """The place of some characters of the text."""
        for piece in reversed(self.pieces):
            if piece.start <= start:
                return piece.place(start, stop)
        return self.node

    @functools.cached_property
    def operands(self) -> list[tuple[int, int]]:
        """Start and stop of every operand, inputs then outputs."""
        return [(m.start(), m.end()) for m in _OPERAND.finditer(self.text)]

    def operand(self, position: int) -> n.Context:
        """The place of one operand."""
        spans = self.operands
        return self.place(*spans[position]) if position < len(spans) else self.node

    def window(self, position: int, operand: Operand, axis: int) -> n.Context:
        """The place of the part of an operand that gives axis ``axis`` of its block."""
        spans = self.operands
        if position >= len(spans) or axis >= len(operand.windows):
            return self.operand(position)
        start, stop = spans[position]
        parts = [(m.start(), m.end()) for m in _PART.finditer(self.text[start:stop])]
        part = operand.windows[axis][1]
        if part >= len(parts):
            return self.operand(position)
        return self.place(start + parts[part][0], start + parts[part][1])

    @functools.cached_property
    def placed(self) -> dict[int, n.CallExpr]:
        """The operands with their own index map, by position."""
        found: dict[int, n.CallExpr] = {}
        if all([piece.spec is None for piece in self.pieces]):
            return found
        for position, (start, _) in enumerate(self.operands):
            piece = next(piece for piece in reversed(self.pieces) if piece.start <= start)
            if piece.spec is not None:
                found[position] = piece.spec
        return found


def string(source: Source, expression: n.Expression) -> str | None:
    """The text that an expression always is: a literal, a variable assigned once, a Final."""
    found = source.definition(expression)
    if isinstance(found, n.StrExpr):
        return found.value
    kind = source.type_of(expression)
    kind = get_proper_type(kind) if kind is not None else None
    if isinstance(kind, Instance) and kind.last_known_value is not None:
        kind = kind.last_known_value
    return kind.value if isinstance(kind, LiteralType) and isinstance(kind.value, str) else None


def strings(source: Source, expression: n.Expression) -> tuple[str, ...] | None:
    """The names in a text (``"i j"``) or in a sequence of texts."""
    text = string(source, expression)
    if text is not None:
        return tuple(text.split())
    items = source.items(expression)
    found = [string(source, item) for item in items or ()]
    return None if items is None or None in found else tuple(name for name in found if name is not None)


def written(source: Source, expression: n.Expression) -> Written | None:
    """The pattern that an expression is; none if it is not all there to read."""
    text = string(source, expression)
    if text is not None:
        return Written(text, (Piece(text, 0, expression),), expression)
    items = source.items(expression)
    pieces = tuple(_pieces(source, items)) if items is not None else ()
    if not pieces or items is None or len(pieces) != len(items):
        return None
    return Written(_joined(pieces), pieces, expression)


def _pieces(source: Source, items: tuple[n.Expression, ...]) -> Iterator[Piece]:
    """Each item where it goes: pieces are joined by commas, arrows stand alone."""
    whole = ""
    for item in items:
        call = source.definition(item)
        own = call if isinstance(call, n.CallExpr) and function_name(call).startswith("typedpallas.") else None
        given = arguments(own, ("text",)) if own is not None else {"text": item}
        node = (given or {}).get("text")
        text = string(source, node) if node is not None else None
        if node is None or text is None:
            return
        glue = "" if not whole else " " if text.lstrip().startswith("->") or whole.rstrip().endswith("->") else ", "
        yield Piece(text, len(whole) + len(glue), node, own)
        whole += glue + text


def _joined(pieces: tuple[Piece, ...]) -> str:
    whole = ""
    for piece in pieces:
        glue = piece.start - len(whole)
        whole += (", " if glue == 2 else " " * glue) + piece.text
    return whole
