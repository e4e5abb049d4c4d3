"""Whole numbers of a kernel's body, read from its source: what a slice starts at, and how long it is."""

from __future__ import annotations

from typing import Any, Final

from mypy import nodes as n

from typedpallas.dims import Size
from typedpallas_mypy import counting
from typedpallas_mypy.evaluate import Evaluator, arithmetic, as_size
from typedpallas_mypy.facts import Types
from typedpallas_mypy.forms import FREE, UNKNOWN, Form, parts
from typedpallas_mypy.handlers import calls_uses
from typedpallas_mypy.handlers.calls_source import arguments, function_name
from typedpallas_mypy.static import Constant

_DEPTH: Final = 20
_OPERATORS: Final = {
    **{"+": "add", "-": "sub", "*": "mul", "//": "floor", "%": "mod"},
    **{"<<": "shift_left", ">>": "shift_right_arithmetic", "&": "and", "|": "or", "^": "xor"},
}
_COMPARISONS: Final = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_FUNCTIONS: Final = {
    **{"jax.numpy.minimum": "min", "jax.numpy.maximum": "max", "builtins.abs": "abs", "jax.numpy.abs": "abs"},
    **{"builtins.min": "min", "builtins.max": "max"},
    **{"jax.numpy.where": "where", "jax.numpy.clip": "clip", "jax.numpy.floor_divide": "floor"},
    **{f"jax._src.lax.lax.{name}": name for name in ("min", "max", "add", "sub", "mul", "div", "rem", "abs")},
}
"""Functions of numbers that are given by their place, by the name mypy knows them by."""
_ALSO: Final = {"cdiv": "cdiv", "minimum": "min", "maximum": "max", "where": "where", "clip": "clip"}


class Reader:
    """Reads the numbers of one kernel."""

    def __init__(self, api: Any, types: Types) -> None:
        self.api = api
        self.types = types
        self.evaluator = Evaluator(api, types)

    def form(self, e: n.Expression, depth: int = 0) -> Form:
        """What a number is made of."""
        if depth > _DEPTH:
            return UNKNOWN
        if isinstance(e, n.IntExpr):
            return Form.of(e.value)
        if isinstance(e, n.OpExpr) and e.op in _OPERATORS:
            return self._operation(e, depth)
        size = self.evaluator.size(e)
        if size is not None:
            return Form.of(size)
        if isinstance(e, n.NameExpr):
            return self._name(e, depth)
        if isinstance(e, n.CallExpr):
            return self._call(e, depth)
        if isinstance(e, n.ComparisonExpr) and len(e.operators) == 1 and e.operators[0] in _COMPARISONS:
            return self._apply(_COMPARISONS[e.operators[0]], tuple(e.operands), depth)
        if isinstance(e, n.UnaryExpr) and e.op in ("-", "~"):
            return Form("sub", (Form.of(0 if e.op == "-" else -1), self.form(e.expr, depth + 1)))
        if isinstance(e, n.IndexExpr) and self._is_loaded(e):
            return Form("data", name=f"{e.line}:{e.column}")
        return UNKNOWN

    def _operation(self, e: n.OpExpr, depth: int) -> Form:
        """``left op right``; of two sizes a size, where there is one."""
        left, right = self.form(e.left, depth + 1), self.form(e.right, depth + 1)
        if left.op == right.op == "size" and left.size is not None and right.size is not None:
            size = as_size(arithmetic(e.op, left.size, right.size))
            if size is not None:
                return Form.of(size)
        return Form(_OPERATORS[e.op], (left, right))

    def _apply(self, op: str, operands: tuple[n.Expression, ...], depth: int) -> Form:
        return Form(op, tuple(self.form(operand, depth + 1) for operand in operands))

    def _name(self, e: n.NameExpr, depth: int) -> Form:
        if not isinstance(e.node, n.Var):
            return UNKNOWN
        values = calls_uses.uses(self.api.tree).values.get(e.node, [])
        if len(values) != 1:
            return UNKNOWN
        if values[0] is not None:
            return self.form(values[0], depth + 1)
        count = counting.counts(self.api.tree).by_variable.get(e.node)
        return UNKNOWN if count is None else self.counted(count, depth + 1)

    def counted(self, count: counting.Count, depth: int = 0) -> Form:
        """What the variable of a loop holds at each turn."""
        if count.kind == "range":
            return Form.of(Size.of(f"{FREE}{count.node.line}:{count.node.column}"))
        if not count.whole:
            return UNKNOWN
        return self.turns(count, depth)

    def turns(self, count: counting.Count, depth: int = 0) -> Form:
        """The same of a loop of JAX, be it written out or not."""
        lower = Form.of(0) if count.lower is None else self.form(count.lower, depth + 1)
        upper = self.form(count.upper, depth + 1)
        name = f"the turn of the loop in line {count.node.line}"
        if count.kind == "fori":
            return Form("turn", (lower, upper), name=name)
        step = Form.of(1) if count.step is None else self.form(count.step, depth + 1)
        turn = Form("turn", (Form.of(0), Form("cdiv", (Form("sub", (upper, lower)), step))), name=name)
        return Form("add", (lower, Form("mul", (turn, step))))

    def _call(self, call: n.CallExpr, depth: int) -> Form:
        name = function_name(call)
        last = name.rpartition(".")[2]
        if not name.startswith(("jax.", "builtins.")):
            return self._method(call, depth)
        if last in ("program_id", "num_programs"):
            axis = self.evaluator.size(call.args[0]) if len(call.args) == 1 else None
            if axis is None or axis.const is None:
                return UNKNOWN
            number = axis.const
            program = last == "program_id"
            return Form("program", name=f"program_id({number})") if program else Form.of(Size.of(f"{FREE}n{number}"))
        if last == "multiple_of":
            return self._promised(call, depth)
        if any(kind != n.ARG_POS for kind in call.arg_kinds):
            return UNKNOWN
        if last == "int32" and len(call.args) == 1:
            return self.form(call.args[0], depth + 1)
        op = _FUNCTIONS.get(name) or (_ALSO.get(last) if name.startswith("jax.") else None)
        if op is None or len(call.args) != (3 if op in ("where", "clip") else 1 if op == "abs" else 2):
            return UNKNOWN
        return self._apply(op, tuple(call.args), depth)

    def _promised(self, call: n.CallExpr, depth: int) -> Form:
        """``pl.multiple_of(x, 8)``, or with a tuple of divisors."""
        given = arguments(call, ("x", "values")) or {}
        if set(given) != {"x", "values"}:
            return UNKNOWN
        values = given["values"]
        divisors = list(values.items) if isinstance(values, n.TupleExpr | n.ListExpr) else [values]
        found = self.form(given["x"], depth + 1)
        for divisor in divisors:
            size = self.evaluator.size(divisor)
            found = UNKNOWN if size is None else Form("multiple", (found,), size)
        return found

    def _method(self, call: n.CallExpr, depth: int) -> Form:
        """``x.astype(jnp.int32)`` is ``x``, where that has 32 bits."""
        callee = call.callee
        if not isinstance(callee, n.MemberExpr) or callee.name != "astype" or len(call.args) != 1:
            return UNKNOWN
        wanted = call.args[0]
        to_int = isinstance(wanted, n.RefExpr) and wanted.fullname.endswith(".int32")
        return self.form(callee.expr, depth + 1) if to_int and self._is_int32(callee.expr) else UNKNOWN

    def _is_int32(self, e: n.Expression) -> bool:
        kind = self.api.lookup_type(e) if self.api.has_type(e) else None
        value = None if kind is None else self.types.value(kind)
        return value is not None and value.dtype == "int32"

    def _is_loaded(self, e: n.IndexExpr) -> bool:
        """Whether it is one 32-bit integer of a ref."""
        variable = e.base.node if isinstance(e.base, n.NameExpr) else None
        kind = variable.type if isinstance(variable, n.Var) else None
        ref = None if kind is None else self.types.ref(kind)
        if ref is None or ref.dtype != "int32" or ref.shape is None:
            return False
        items = e.index.items if isinstance(e.index, n.TupleExpr) else [e.index]
        return len(items) == len(ref.shape) and all(map(self.is_scalar, items))

    def is_scalar(self, e: n.Expression) -> bool:
        """Whether an index is one number for sure."""
        if self._counts(e):
            return True
        static = self.evaluator.static(e)
        if isinstance(static, Constant):
            return static.kind is int
        kind = self.api.lookup_type(e) if self.api.has_type(e) else None
        value = None if kind is None else self.types.value(kind)
        return isinstance(static, Size) or (
            value is not None and value.shape == () and value.dtype in ("int", "int32")
        )

    def _counts(self, e: n.Expression) -> bool:
        """Whether it is made of program ids, counts of loops and sizes alone: a number, whatever mypy says."""
        return not any(part.op in ("unknown", "data") for part in parts(self.form(e)))
