"""What each variable of a file is bound to, for variables that are bound once.

mypy's visitors can't be subclassed from Python, so this walks statements itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mypy.nodes import (
    AssignmentStmt,
    Block,
    ClassDef,
    Decorator,
    Expression,
    ExpressionStmt,
    ForStmt,
    FuncDef,
    IfStmt,
    Import,
    ImportFrom,
    ListExpr,
    Lvalue,
    MatchStmt,
    MypyFile,
    NameExpr,
    OperatorAssignmentStmt,
    OverloadedFuncDef,
    PassStmt,
    ReturnStmt,
    StarExpr,
    Statement,
    SymbolNode,
    TryStmt,
    TupleExpr,
    Var,
    WhileStmt,
    WithStmt,
)

from typedpallas.records import record

type Bindings = dict[SymbolNode, list[Expression | None]]
"""Every binding of a variable: the expression, or none where it is bound in another way."""


@record(frozen=True)
class _File:
    tree: MypyFile
    bindings: Bindings
    rebound: frozenset[int]


_KEPT = 4
_CACHE: dict[int, _File] = {}


def bindings(tree: MypyFile) -> Bindings:
    """Every binding in a file."""
    return _read(tree).bindings


def rebound(tree: MypyFile) -> frozenset[int]:
    """The ids of the expressions that are assigned to a variable which is bound elsewhere too."""
    return _read(tree).rebound


def _read(tree: MypyFile) -> _File:
    """What a file binds; the last few files are remembered."""
    kept = _CACHE.get(id(tree))
    if kept is not None and kept.tree is tree:
        return kept
    assigned = list(_of_all(tree.defs))
    named = [pair for target, value in assigned for pair in _names(target, value)]
    found: Bindings = {}
    for name, bound in named:
        found.setdefault(name, []).append(bound)
    several = {name for name, bound in found.items() if len(bound) > 1}
    twice = {
        id(value)
        for target, value in assigned
        if several and value is not None and any(name in several for name, _ in _names(target, value))
    }
    while len(_CACHE) >= _KEPT:
        _CACHE.pop(next(iter(_CACHE)))
    _CACHE[id(tree)] = _File(tree, found, frozenset(twice))
    return _CACHE[id(tree)]


def definition(api: Any, expression: Expression) -> Expression:
    """What a variable that is bound once in its file is bound to, followed to the end; else the expression."""
    for _ in range(10):
        if not isinstance(expression, NameExpr) or not isinstance(expression.node, Var):
            break
        bound = bindings(api.tree).get(expression.node, [])
        if len(bound) != 1 or bound[0] is None:
            break
        expression = bound[0]
    return expression


def _names(target: Lvalue, value: Expression | None) -> Sequence[tuple[SymbolNode, Expression | None]]:
    if isinstance(target, NameExpr):
        return ((target.node, value),) if isinstance(target.node, Var) else ()
    if isinstance(target, TupleExpr | ListExpr):
        return [pair for item in target.items for pair in _names(item, None)]
    return _names(target.expr, None) if isinstance(target, StarExpr) else ()


_BINDS_NOTHING = frozenset({ExpressionStmt, Import, ImportFrom, PassStmt, ReturnStmt})


def _of_all(statements: Sequence[Statement]) -> Iterator[tuple[Lvalue, Expression | None]]:
    for statement in statements:
        if type(statement) in _BINDS_NOTHING:
            continue
        if type(statement) is AssignmentStmt:
            for target in statement.lvalues:
                yield target, statement.rvalue
            continue
        yield from _own(statement)
        for block in blocks(statement):
            yield from _of_all(block.body)


def _own(statement: Statement) -> Iterator[tuple[Lvalue, Expression | None]]:
    """What a statement itself binds."""
    if isinstance(statement, OperatorAssignmentStmt):
        yield statement.lvalue, None
    elif isinstance(statement, ForStmt):
        yield statement.index, None
    elif isinstance(statement, WithStmt):
        for item in statement.target:
            if item is not None:
                yield item, None


def blocks(statement: Statement) -> Iterator[Block]:
    """The blocks inside a statement."""
    if isinstance(statement, ForStmt | WhileStmt | IfStmt):
        yield from [statement.body] if isinstance(statement, ForStmt | WhileStmt) else statement.body
        if statement.else_body is not None:
            yield statement.else_body
    elif isinstance(statement, WithStmt | FuncDef):
        yield statement.body
    elif isinstance(statement, TryStmt):
        rest = (statement.else_body, statement.finally_body)
        yield from (statement.body, *statement.handlers, *(block for block in rest if block is not None))
    elif isinstance(statement, MatchStmt):
        yield from statement.bodies
    elif isinstance(statement, Decorator):
        yield statement.func.body
    elif isinstance(statement, OverloadedFuncDef):
        for item in statement.items:
            yield from blocks(item)
    elif isinstance(statement, ClassDef):
        yield statement.defs
    elif isinstance(statement, Block):
        yield statement
