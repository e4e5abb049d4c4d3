"""Tests in a body that surely hold, or surely not, in the first or in the last step of any grid."""

from __future__ import annotations

from typing import Final, Literal

from mypy import nodes as n

from typedpallas.dims import Size
from typedpallas_mypy.handlers.calls_source import Source, function_name

type Step = Literal["first", "last"]

_DEPTH: Final = 8
_COMPARED: Final = {
    "==": lambda s: s == 0,
    "!=": lambda s: s != 0,
    "<": lambda s: s < 0,
    "<=": lambda s: s <= 0,
    ">": lambda s: s > 0,
    ">=": lambda s: s >= 0,
}


def sign(size: Size) -> int | None:
    """1 or -1 for what is certainly more or less than nothing, 0 for nothing; names stand for at least one."""
    if not size.terms:
        return 0
    signs = {1 if count > 0 else -1 for _, count in size.terms}
    return signs.pop() if len(signs) == 1 else None


class Steps:
    """Evaluates tests on the numbers of programs, where variables are bound once."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def holds(self, test: n.Expression, step: Step) -> bool | None:
        """Whether a test holds in a step; none if that is not certain."""
        if isinstance(test, n.UnaryExpr) and test.op in ("not", "~"):
            inner = self.holds(test.expr, step)
            return None if inner is None else not inner
        if isinstance(test, n.CallExpr) and function_name(test).endswith("logical_not") and test.args:
            inner = self.holds(test.args[0], step)
            return None if inner is None else not inner
        if isinstance(test, n.NameExpr):
            value = self._source.definition(test)
            return None if isinstance(value, n.NameExpr) else self.holds(value, step)
        if not isinstance(test, n.ComparisonExpr) or len(test.operators) != 1 or test.operators[0] not in _COMPARED:
            return None
        left, right = (self._number(operand, step, 0) for operand in test.operands)
        difference = None if left is None or right is None else left - right
        return self._compared(difference, test.operators[0]) if difference is not None else None

    def _compared(self, difference: Size, operator: str) -> bool | None:
        if difference.const is not None:
            return bool(_COMPARED[operator](difference.const))
        surely = sign(difference)
        return None if surely is None else bool(_COMPARED[operator](surely))

    def _number(self, expression: n.Expression, step: Step, depth: int) -> Size | None:
        """A number over the grid's sizes ``n0``, ``n1``, ..."""
        if depth > _DEPTH:
            return None
        expression = self._source.definition(expression)
        if isinstance(expression, n.IntExpr):
            return Size.of(expression.value)
        if isinstance(expression, n.OpExpr) and expression.op in ("+", "-"):
            left, right = (self._number(side, step, depth + 1) for side in (expression.left, expression.right))
            if left is None or right is None:
                return None
            return left + right if expression.op == "+" else left - right
        name = function_name(expression).rpartition(".")[2]
        if (
            not isinstance(expression, n.CallExpr)
            or name not in ("program_id", "num_programs")
            or not expression.args
        ):
            return None
        axis = self._source.size(expression.args[0])
        if axis is None or axis.const is None:
            return None
        extent = Size.of(f"n{axis.const}")
        if name == "num_programs":
            return extent
        return Size.of(0) if step == "first" else extent - 1
