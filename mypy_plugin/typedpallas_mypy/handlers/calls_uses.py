"""How the variables of a file are used: what each is bound to, and whether its object may be changed in place.

mypy's own visitors are compiled and cannot be subclassed, so the syntax tree is walked here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from mypy import nodes as n
from mypy import patterns as p

_PARTS: Final[dict[type, tuple[str, ...]]] = {
    # Statements.
    n.Block: ("body",),
    n.AssignmentStmt: ("lvalues", "rvalue"),
    n.OperatorAssignmentStmt: ("lvalue", "rvalue"),
    n.ExpressionStmt: ("expr",),
    n.ReturnStmt: ("expr",),
    n.IfStmt: ("expr", "body", "else_body"),
    n.WhileStmt: ("expr", "body", "else_body"),
    n.ForStmt: ("index", "expr", "body", "else_body"),
    n.WithStmt: ("expr", "target", "body"),
    n.TryStmt: ("body", "vars", "types", "handlers", "else_body", "finally_body"),
    n.RaiseStmt: ("expr", "from_expr"),
    n.AssertStmt: ("expr", "msg"),
    n.DelStmt: ("expr",),
    n.MatchStmt: ("subject", "patterns", "guards", "bodies"),
    n.FuncDef: ("arguments", "body"),
    n.Argument: ("initializer",),
    n.Decorator: ("decorators", "func"),
    n.OverloadedFuncDef: ("items",),
    n.ClassDef: ("decorators", "defs"),
    # Expressions.
    n.CallExpr: ("callee", "args"),
    n.MemberExpr: ("expr",),
    n.IndexExpr: ("base", "index"),
    n.OpExpr: ("left", "right"),
    n.ComparisonExpr: ("operands",),
    n.UnaryExpr: ("expr",),
    n.ListExpr: ("items",),
    n.TupleExpr: ("items",),
    n.SetExpr: ("items",),
    n.DictExpr: ("items",),
    n.ConditionalExpr: ("cond", "if_expr", "else_expr"),
    n.LambdaExpr: ("arguments", "body"),
    n.GeneratorExpr: ("left_expr", "indices", "sequences", "condlists"),
    n.ListComprehension: ("generator",),
    n.SetComprehension: ("generator",),
    n.DictionaryComprehension: ("key", "value", "indices", "sequences", "condlists"),
    n.SliceExpr: ("begin_index", "end_index", "stride"),
    n.StarExpr: ("expr",),
    n.AssignmentExpr: ("target", "value"),
    n.AwaitExpr: ("expr",),
    n.YieldExpr: ("expr",),
    n.YieldFromExpr: ("expr",),
    n.CastExpr: ("expr",),
    n.AssertTypeExpr: ("expr",),
    n.RevealExpr: ("expr",),
    # Patterns.
    p.AsPattern: ("pattern", "name"),
    p.OrPattern: ("patterns",),
    p.SequencePattern: ("patterns",),
    p.StarredPattern: ("capture",),
    p.MappingPattern: ("values", "rest"),
    p.ClassPattern: ("positionals", "keyword_values"),
}
_LEAVES: Final = frozenset([n.NameExpr, n.IntExpr, n.StrExpr, n.FloatExpr, n.EllipsisExpr])
"""Nodes with nothing below them and nothing to note; half of all."""
_LOOKS_ONLY: Final = ("builtins.", "jax.", "typedpallas.")
"""Where functions live that do not change a list that they are given."""


@dataclass
class Uses:
    """How the variables of one file are used."""

    defs: list[n.Statement]
    values: dict[n.Var, list[n.Expression | None]] = field(default_factory=dict)
    """Every assignment of a variable; none where it is bound to something that is no expression."""
    changed: set[n.SymbolNode] = field(default_factory=set)
    """Variables whose object may be changed in place or is known by another name."""
    called: dict[n.Expression, n.CallExpr] = field(default_factory=dict)
    """An expression to the call that calls its value."""
    functions: set[n.FuncDef] = field(default_factory=set)
    """Every function that is defined in the file."""


_KEPT: Final = 4
_USES: list[Uses] = []


def uses(tree: n.MypyFile) -> Uses:
    """The uses of all variables in a file; kept for a few files (dmypy replaces ``tree.defs`` on a change)."""
    for kept in _USES:
        if kept.defs is tree.defs:
            return kept
    found = Uses(tree.defs)
    for statement in tree.defs:
        _read(found, statement)
    _USES.append(found)
    del _USES[:-_KEPT]
    return found


def parts(node: Any) -> tuple[Any, ...]:
    """The nodes right below one, and lists of them."""
    return tuple(getattr(node, part) for part in _PARTS.get(type(node), ()))


def _read(found: Uses, node: Any) -> None:
    """Read one node and everything below it."""
    kind = type(node)
    if kind is list or kind is tuple:
        for part in node:
            if part is not None:
                _read(found, part)
        return
    noted = _NOTES.get(kind)
    if noted is not None:
        noted(found, node)
    for name in _PARTS.get(kind, ()):
        part = getattr(node, name)
        if part is not None and type(part) not in _LEAVES:
            _read(found, part)


def _bind(found: Uses, target: Any, value: n.Expression | None) -> None:
    if isinstance(target, n.TupleExpr | n.ListExpr):
        values = value.items if isinstance(value, n.TupleExpr | n.ListExpr) else ()
        same = len(values) == len(target.items) and not any(isinstance(i, n.StarExpr) for i in target.items)
        for i, item in enumerate(target.items):
            _bind(found, item, values[i] if same else None)
    elif isinstance(target, n.StarExpr):
        _bind(found, target.expr, None)
    elif isinstance(target, n.NameExpr) and isinstance(target.node, n.Var):
        found.values.setdefault(target.node, []).append(value)
    elif isinstance(target, n.IndexExpr):
        _change(found, target.base)
    elif isinstance(target, list):
        for item in target:
            _bind(found, item, None)


def _change(found: Uses, expression: Any) -> None:
    if isinstance(expression, n.NameExpr) and expression.node is not None:
        found.changed.add(expression.node)


def _note_assignment(found: Uses, node: n.AssignmentStmt) -> None:
    for target in node.lvalues:
        _bind(found, target, node.rvalue)
    _change(found, node.rvalue)


def _note_loop(found: Uses, node: n.ForStmt) -> None:
    _bind(found, node.index, None)


def _note_with(found: Uses, node: n.WithStmt) -> None:
    for target in node.target:
        _bind(found, target, None)


def _note_try(found: Uses, node: n.TryStmt) -> None:
    for target in node.vars:
        _bind(found, target, None)


def _note_delete(found: Uses, node: n.DelStmt) -> None:
    _bind(found, node.expr, None)


def _note_comprehension(found: Uses, node: n.GeneratorExpr | n.DictionaryComprehension) -> None:
    _bind(found, node.indices, None)


def _note_walrus(found: Uses, node: n.AssignmentExpr) -> None:
    _bind(found, node.target, node.value)


def _note_argument(found: Uses, node: n.Argument) -> None:
    found.values.setdefault(node.variable, []).append(None)


def _note_capture(found: Uses, node: p.AsPattern) -> None:
    _bind(found, node.name, None)


def _note_starred(found: Uses, node: p.StarredPattern) -> None:
    _bind(found, node.capture, None)


def _note_rest(found: Uses, node: p.MappingPattern) -> None:
    _bind(found, node.rest, None)


def _note_member(found: Uses, node: n.MemberExpr) -> None:
    _change(found, node.expr)


def _note_call(found: Uses, node: n.CallExpr) -> None:
    found.called[node.callee] = node
    callee = node.callee.fullname if isinstance(node.callee, n.RefExpr) else ""
    if not callee.startswith(_LOOKS_ONLY):
        for argument in node.args:
            _change(found, argument)


def _note_function(found: Uses, node: n.FuncDef) -> None:
    found.functions.add(node)


def _note_update(found: Uses, node: n.OperatorAssignmentStmt) -> None:
    _bind(found, node.lvalue, None)


_NOTES: Final[dict[type, Callable[[Uses, Any], None]]] = {
    n.AssignmentStmt: _note_assignment,
    n.OperatorAssignmentStmt: _note_update,
    n.ForStmt: _note_loop,
    n.WithStmt: _note_with,
    n.TryStmt: _note_try,
    n.DelStmt: _note_delete,
    n.GeneratorExpr: _note_comprehension,
    n.DictionaryComprehension: _note_comprehension,
    n.AssignmentExpr: _note_walrus,
    n.FuncDef: _note_function,
    n.Argument: _note_argument,
    n.MemberExpr: _note_member,
    n.CallExpr: _note_call,
    p.AsPattern: _note_capture,
    p.StarredPattern: _note_starred,
    p.MappingPattern: _note_rest,
}
