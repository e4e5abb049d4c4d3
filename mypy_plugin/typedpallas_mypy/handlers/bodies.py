"""A kernel's body where a launch of it stands in the same file: what every path through it does, or fails to do.

A function with the same annotations that is no kernel, a helper, may leave stores and waits to its caller. So a body
is looked at only from a launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from mypy import nodes as n

from typedpallas.events import RefFact
from typedpallas_mypy import report
from typedpallas_mypy.bindings import blocks
from typedpallas_mypy.handlers import body_copies, body_stores, scoped
from typedpallas_mypy.handlers.body_tree import Body
from typedpallas_mypy.handlers.calls_kernel import NO_FACTS, Kernel
from typedpallas_mypy.handlers.calls_source import Source, function_name

_FLAT: Final = (n.AssignmentStmt, n.ExpressionStmt, n.OperatorAssignmentStmt, n.ReturnStmt)
"""Statements without blocks."""


def judge(source: Source, kernel: Kernel, expression: n.Context, *, aliased: bool) -> None:
    """Judge the body of the kernel that a launch names; ``aliased``: it gives outputs the memory of inputs."""
    function = function_of(source, expression)
    if function is None or not source.defines(function):
        return
    refs = tuple(parameter.ref for parameter in kernel.parameters)
    if not _worth_reading(function, refs):
        return
    body = Body(function)
    if body.is_stub:
        return
    for event, place in chain(body_stores.events(body, refs, aliased), body_copies.events(body, source, refs)):
        report.judge(source.api, event, NO_FACTS, {"": place})


def judge_copies(source: Source, semaphores: tuple[RefFact, ...], expression: n.Context) -> None:
    """Judge what the kernel that a launch names does to these semaphores of its own."""
    function = function_of(source, expression)
    if function is not None and source.defines(function):
        for event, place in body_copies.events(Body(function), source, semaphores):
            report.judge(source.api, event, NO_FACTS, {"": place})


def function_of(source: Source, expression: n.Context) -> n.FuncDef | None:
    """The definition that a kernel expression names, or gives more keywords; none for what is made elsewhere."""
    if isinstance(expression, n.Decorator):
        return expression.func
    found = source.definition(expression) if isinstance(expression, n.Expression) else None
    if isinstance(found, n.CallExpr) and function_name(found) == "functools.partial":
        only_keywords = found.arg_kinds[0] == n.ARG_POS and set(found.arg_kinds[1:]) <= {n.ARG_NAMED}
        found = source.definition(found.args[0]) if only_keywords else None
    node = found.node if isinstance(found, n.RefExpr) else None
    return node if isinstance(node, n.FuncDef) else None


def _worth_reading(function: n.FuncDef, refs: tuple[RefFact, ...]) -> bool:
    """Whether something may be wrong: a semaphore is there, or a buffer to which no statement plainly stores.

    Nearly every kernel stores to all of its buffers, and reading a whole body takes ten times as long as this.
    """
    if any(ref.space is not None and not ref.space.data for ref in refs):
        return True
    buffers = {ref.name for ref in refs if ref.direction in ("out", "scratch")}
    statements: list[n.Statement] = []
    _collect(function.body.body, statements)
    return not buffers <= {name for s in statements for name in _stored(s)} or any(map(_scopes, statements))


def _collect(statements: list[n.Statement], found: list[n.Statement]) -> None:
    """Every statement, in nested blocks and functions too; most have no block."""
    for statement in statements:
        found.append(statement)
        if not isinstance(statement, _FLAT):
            for block in blocks(statement):
                _collect(block.body, found)


def _scopes(statement: n.Statement) -> bool:
    """Whether a statement makes scratch of its own, which may be semaphores: ``pl.run_scoped``."""
    calls = statement.original_decorators if isinstance(statement, n.Decorator) else []
    value = statement.expr if isinstance(statement, n.ExpressionStmt | n.ReturnStmt) else None
    value = statement.rvalue if isinstance(statement, n.AssignmentStmt) else value
    return any([scoped.is_run_scoped(c) for c in [*calls, value] if isinstance(c, n.CallExpr)])


def _stored(statement: n.Statement) -> Iterator[str]:
    """The names of what a statement stores to, ``o`` of ``o[...] = v``."""
    if isinstance(statement, n.AssignmentStmt):
        for target in statement.lvalues:
            if isinstance(target, n.IndexExpr) and isinstance(target.base, n.NameExpr):
                yield target.base.name
