"""Expressions of a body in words that can be compared: the same words stand for the same value, or there are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

from mypy import nodes as n

from typedpallas.records import record
from typedpallas_mypy.handlers.calls_source import function_name

type Given = Mapping[n.SymbolNode, n.Expression]
"""What the parameters of a small function stand for where it is called."""
type Stable = Callable[[n.Var], bool]
"""Whether a variable has one value for as long as a body runs."""

_PURE: Final = (
    "ds",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "num_programs",
    "program_id",
    "rem",
)
_PAIR: Final = 2
_OPPOSITE: Final = {"!=": "==", ">=": "<", "<=": ">"}
_NO_VARIABLE: Final[Given] = {}


def words(expression: n.Expression, stable: Stable, given: Given = _NO_VARIABLE) -> str | None:
    """One text for each value, as far as that can be told from constants, variables and arithmetic."""
    if isinstance(expression, n.IntExpr):
        return str(expression.value)
    if isinstance(expression, n.NameExpr):
        return _name(expression, stable, given)
    if isinstance(expression, n.MemberExpr):
        inner = words(expression.expr, stable, given)
        return None if inner is None else f"{inner}.{expression.name}"
    if isinstance(expression, n.OpExpr):
        return _joined(expression.op, [expression.left, expression.right], stable, given)
    if isinstance(expression, n.ComparisonExpr):
        return _joined(" ".join(expression.operators), expression.operands, stable, given)
    if isinstance(expression, n.UnaryExpr):
        return _joined(expression.op, [expression.expr], stable, given)
    if isinstance(expression, n.TupleExpr):
        return _joined(",", expression.items, stable, given)
    if isinstance(expression, n.EllipsisExpr):
        return "..."
    if isinstance(expression, n.CallExpr) and function_name(expression).rpartition(".")[2] in _PURE:
        names = " ".join(name or "" for name in expression.arg_names)
        called = f"{function_name(expression)} {names}"
        return _joined(called, expression.args, stable, given) if n.ARG_STAR not in expression.arg_kinds else None
    return None


def _joined(sign: str, parts: list[n.Expression], stable: Stable, given: Given) -> str | None:
    texts = [words(part, stable, given) for part in parts]
    known = [text for text in texts if text is not None]
    if len(known) < len(texts):
        return None
    numbers = [int(text) for text in known if text.isdigit()]
    folded = _number(sign.strip(), *numbers) if len(numbers) == len(known) == _PAIR else None
    return f"({sign} {' '.join(known)})" if folded is None else str(folded)


def _number(sign: str, left: int, right: int) -> int | None:
    """Arithmetic on numbers that are not negative; none where the result would be."""
    if sign == "+":
        return left + right
    if sign == "*":
        return left * right
    if sign == "-":
        return left - right if left >= right else None
    return left % right if (sign == "%" or sign.endswith(".rem")) and right else None


def _name(expression: n.NameExpr, stable: Stable, given: Given) -> str | None:
    node = expression.node
    if node is None:
        return None
    if node in given:
        return words(given[node], stable)
    if isinstance(node, n.Var) and not stable(node):
        return None
    return f"{expression.name}#{id(node)}"


def condition(expression: n.Expression, stable: Stable) -> tuple[object, bool]:
    """What a test asks, and the answer on which its branch runs: ``i != 0`` asks ``i == 0`` and wants no.

    Tests that cannot be compared are each a question of its own.
    """
    if isinstance(expression, n.UnaryExpr) and expression.op in ("not", "~"):
        key, wanted = condition(expression.expr, stable)
        return key, not wanted
    if function_name(expression).rpartition(".")[2] == "logical_not" and isinstance(expression, n.CallExpr):
        key, wanted = condition(expression.args[0], stable)
        return key, not wanted
    if isinstance(expression, n.ComparisonExpr) and len(expression.operators) == 1:
        operator = expression.operators[0]
        key = _joined(_OPPOSITE.get(operator, operator), expression.operands, stable, _NO_VARIABLE)
        return (expression if key is None else key), operator not in _OPPOSITE
    key = words(expression, stable)
    return (expression if key is None else key), True


# ---------------------------------------------------------------------- parts of buffers


@record(frozen=True)
class Region:
    """A part of a buffer: one entry for each leading axis, ``""`` for all of an axis; none for what is not known."""

    axes: tuple[str | None, ...]

    def meets(self, other: Region) -> Literal["yes", "no", "unknown"]:
        """Whether two parts of one buffer have elements in common."""
        certain = True
        for mine, theirs in zip(self.axes, other.axes, strict=False):
            if mine is not None and theirs is not None and mine.isdigit() and theirs.isdigit() and mine != theirs:
                return "no"
            certain = certain and (mine == "" or theirs == "" or (mine is not None and mine == theirs))
        return "yes" if certain else "unknown"


WHOLE: Final = Region(())
UNKNOWN: Final = Region((None,))


def region(index: n.Expression, stable: Stable, given: Given = _NO_VARIABLE) -> Region:
    """The part that an index selects."""
    items = index.items if isinstance(index, n.TupleExpr) else [index]
    axes: list[str | None] = []
    for i, item in enumerate(items):
        if isinstance(item, n.EllipsisExpr):
            return Region(tuple(axes)) if i == len(items) - 1 else UNKNOWN
        if isinstance(item, n.StarExpr) or (isinstance(item, n.NameExpr) and item.fullname == "builtins.None"):
            return UNKNOWN
        if isinstance(item, n.SliceExpr):
            whole = item.begin_index is None and item.end_index is None and item.stride is None
            axes.append("" if whole else None)
        else:
            axes.append(words(item, stable, given))
    return Region(tuple(axes))
