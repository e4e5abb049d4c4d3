"""What an expression stands for, read from the source: variables assigned once, sizes, sequences.

mypy's types lose the items of lists and the values of plain variables, so these are read from the syntax tree of
the file that is being checked. Anything assigned twice, rebound, or changed in place is unknown.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

from mypy import nodes as n
from mypy.types import AnyType, Type, get_proper_type

from typedpallas.dims import Size
from typedpallas_mypy.facts import Types
from typedpallas_mypy.handlers import calls_uses

_DEPTH: Final = 20


class Source:
    """Reads the expressions of the file that is being checked."""

    def __init__(self, api: Any, types: Types) -> None:
        self.api = api
        self.types = types
        self.known: dict[n.SymbolNode, Size] = {}
        """Variables that stand for a size of their own: the parameters of an index map."""

    @functools.cached_property
    def uses(self) -> calls_uses.Uses:
        """How the file's variables are used; most calls are written out and never ask."""
        return calls_uses.uses(self.api.tree)

    def defines(self, function: n.FuncDef) -> bool:
        """Whether a function is defined in the file; most are at its top level."""
        top = f"{self.api.tree.fullname}.{function.name}"
        return function.fullname == top or function in self.uses.functions

    def definition(self, expression: n.Expression) -> n.Expression:
        """The expression itself, or the one value that the variable which it names ever gets."""
        for _ in range(_DEPTH):
            further = self._item(expression) if isinstance(expression, n.IndexExpr) else self._bound(expression)
            if further is None:
                break
            expression = further
        return expression

    def _bound(self, expression: n.Expression) -> n.Expression | None:
        """What a variable that is assigned once is assigned."""
        if not isinstance(expression, n.NameExpr) or not isinstance(expression.node, n.Var):
            return None
        values = self.uses.values.get(expression.node, [])
        return values[0] if len(values) == 1 else None

    def _item(self, expression: n.IndexExpr) -> n.Expression | None:
        """What ``SEQUENCE[2]`` picks, where the sequence's items are known."""
        index = self.size(expression.index)
        items = self.items(expression.base) if index is not None and index.const is not None else None
        if items is None or index is None or index.const is None or not -len(items) <= index.const < len(items):
            return None
        return items[index.const]

    def type_of(self, expression: n.Expression) -> Type | None:
        """The type of an expression that mypy has checked already."""
        return self.api.lookup_type(expression) if self.api.has_type(expression) else None

    def is_int(self, expression: n.Expression) -> bool:
        """Whether mypy knows that an expression is an int, and never None."""
        kind = self.type_of(expression)
        return kind is not None and (value := self.types.value(kind)) is not None and value.dtype == "int"

    # ---------------------------------------------------------------- sequences

    def items(self, expression: n.Expression) -> tuple[n.Expression, ...] | None:
        """The items of a list or tuple; none where they are not all known."""
        found = self.definition(expression)
        if found is not expression and isinstance(found, n.ListExpr) and self._may_change(expression):
            return None
        if isinstance(found, n.ListExpr | n.TupleExpr):
            return None if any(isinstance(item, n.StarExpr) for item in found.items) else tuple(found.items)
        if isinstance(found, n.OpExpr) and found.op == "+":
            left, right = self.items(found.left), self.items(found.right)
            return None if left is None or right is None else left + right
        if isinstance(found, n.OpExpr) and found.op == "*":
            return self._repeated(found.left, found.right) or self._repeated(found.right, found.left)
        return None

    def _repeated(self, sequence: n.Expression, times: n.Expression) -> tuple[n.Expression, ...] | None:
        items, count = self.items(sequence), self.size(times)
        return items * count.const if items is not None and count is not None and count.const is not None else None

    def _may_change(self, expression: n.Expression) -> bool:
        """Whether a variable on the way to its definition may have its object changed in place."""
        for _ in range(_DEPTH):
            if not isinstance(expression, n.NameExpr) or not isinstance(expression.node, n.Var):
                return False
            if expression.node in self.uses.changed:
                return True
            expression = self.uses.values[expression.node][0] or expression
        return True

    # ---------------------------------------------------------------- sizes

    def size(self, expression: n.Expression, depth: int = 0) -> Size | None:
        """The size that an expression has wherever it is evaluated; none if unknown."""
        if depth > _DEPTH:
            return None
        if isinstance(expression, n.IntExpr):
            return Size.of(expression.value)
        if isinstance(expression, n.UnaryExpr) and expression.op == "-":
            inner = self.size(expression.expr, depth + 1)
            return None if inner is None else -inner
        if isinstance(expression, n.OpExpr):
            return self._arithmetic(expression, depth)
        if isinstance(expression, n.CallExpr):
            return self._call(expression, depth)
        return self._named(expression, depth)

    def _arithmetic(self, expression: n.OpExpr, depth: int) -> Size | None:
        left, right = self.size(expression.left, depth + 1), self.size(expression.right, depth + 1)
        if left is None or right is None:
            return None
        if expression.op in ("+", "-", "*"):
            return {"+": left + right, "-": left - right, "*": left * right}[expression.op]
        return left // right if expression.op == "//" and right.const != 0 else None

    def _call(self, expression: n.CallExpr, depth: int) -> Size | None:
        name = expression.callee.fullname if isinstance(expression.callee, n.RefExpr) else ""
        if any(kind != n.ARG_POS for kind in expression.arg_kinds):
            return None
        sizes = [self.size(argument, depth + 1) for argument in expression.args]
        if name.rpartition(".")[2] == "cdiv" and len(sizes) == 2:
            left, right = sizes
            return None if left is None or right is None or right.const == 0 else left.cdiv(right)
        if name in ("builtins.min", "builtins.max") and len(sizes) > 1:
            numbers = [size.const for size in sizes if size is not None and size.const is not None]
            choose = min if name == "builtins.min" else max
            return Size.of(choose(numbers)) if len(numbers) == len(sizes) else None
        return None

    def _named(self, expression: n.Expression, depth: int) -> Size | None:
        if isinstance(expression, n.NameExpr) and expression.node in self.known:
            return self.known[expression.node]
        kind = self.type_of(expression)
        known = self.types.size(kind) if kind is not None and not isinstance(get_proper_type(kind), AnyType) else None
        if known is not None:
            return known
        if isinstance(expression, n.RefExpr) and isinstance(expression.node, n.Var):
            final = expression.node.final_value
            if type(final) is int:
                return Size.of(final)
        value = self.definition(expression)
        return None if value is expression else self.size(value, depth + 1)


def function_name(expression: n.Expression) -> str:
    """The full name of what a call calls (``jax._src.pallas.core.BlockSpec``); empty if it is no plain name."""
    if isinstance(expression, n.CallExpr) and isinstance(expression.callee, n.RefExpr):
        return expression.callee.fullname
    return ""


def arguments(call: n.CallExpr, positional: tuple[str, ...]) -> dict[str, n.Expression] | None:
    """The arguments of a call by name; none if it has ``*`` or ``**`` arguments, or too many."""
    found: dict[str, n.Expression] = {}
    unnamed: Iterator[str] = iter(positional)
    for kind, name, argument in zip(call.arg_kinds, call.arg_names, call.args, strict=True):
        if kind in (n.ARG_STAR, n.ARG_STAR2):
            return None
        key = name if name is not None else next(unnamed, None)
        if key is None:
            return None
        found[key] = argument
    return found
