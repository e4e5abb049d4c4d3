"""The loops of a file: what each counts, by the variable that the count is bound to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any, Final

from mypy import nodes as n

from typedpallas.records import record
from typedpallas_mypy.handlers.calls_source import arguments, function_name
from typedpallas_mypy.handlers.calls_uses import parts

_FORI: Final = ("lower", "upper", "body_fun", "init_val")
_LOOP: Final = ("lower", "upper")


@record(frozen=True)
class Count:
    """One loop. ``whole``: whether it is left to the compiler as a loop; else some of it may be written out."""

    kind: str
    """``fori`` of `lax.fori_loop`, ``loop`` of `pl.loop`, ``range`` of a loop of Python's."""
    node: n.Context
    lower: n.Expression | None
    upper: n.Expression
    step: n.Expression | None = None
    whole: bool = True


@record(frozen=True)
class Counts:
    """The loops of one file."""

    defs: list[n.Statement]
    by_variable: dict[n.SymbolNode, Count] = field(default_factory=dict)
    by_body: dict[n.Node, Count] = field(default_factory=dict)
    """The same by the function that is the loop's body. One that is the body of several loops is in neither."""


_KEPT: Final = 4
_COUNTS: list[Counts] = []


def counts(tree: n.MypyFile) -> Counts:
    """The loops of a file; kept for a few files."""
    for kept in _COUNTS:
        if kept.defs is tree.defs:
            return kept
    found = Counts(tree.defs)
    twice: set[n.Node] = set()
    for body, variable, count in _loops(tree.defs):
        if body in found.by_body:
            twice.add(body)
        found.by_body[body] = count
        if variable is not None:
            found.by_variable[variable] = count
    for body in twice:
        del found.by_body[body]
        for variable in _parameters(body)[:1]:
            found.by_variable.pop(variable, None)
    _COUNTS.append(found)
    del _COUNTS[:-_KEPT]
    return found


def _loops(node: Any) -> Iterator[tuple[n.Node, n.SymbolNode | None, Count]]:
    """Every loop at or below a node: its body, the variable that holds the count, and what is counted."""
    if isinstance(node, list | tuple):
        for part in node:
            yield from _loops(part)
        return
    if isinstance(node, n.CallExpr) and function_name(node).endswith(".fori_loop"):
        yield from _fori(node)
    elif isinstance(node, n.Decorator):
        yield from _decorated(node)
    elif isinstance(node, n.ForStmt):
        yield from _range(node)
    if isinstance(node, n.Node):
        for part in parts(node):
            yield from _loops(part)


def _fori(call: n.CallExpr) -> Iterator[tuple[n.Node, n.SymbolNode | None, Count]]:
    given = arguments(call, _FORI) or {}
    body = given.get("body_fun")
    function: n.Node | None = body.node if isinstance(body, n.NameExpr) else body
    if isinstance(function, n.FuncDef | n.LambdaExpr) and "lower" in given and "upper" in given:
        count = Count("fori", call, given["lower"], given["upper"], whole="unroll" not in given)
        yield function, next(iter(_parameters(function)), None), count


def _decorated(node: n.Decorator) -> Iterator[tuple[n.Node, n.SymbolNode | None, Count]]:
    for decorator in node.decorators:
        name = function_name(decorator)
        if not isinstance(decorator, n.CallExpr) or not name.startswith("jax.") or not name.endswith(".loop"):
            continue
        given = arguments(decorator, _LOOP) or {}
        if len(node.decorators) == 1 and "lower" in given and "upper" in given:
            whole = "unroll" not in given
            count = Count("loop", decorator, given["lower"], given["upper"], given.get("step"), whole)
            yield node.func, next(iter(_parameters(node.func)), None), count


def _range(loop: n.ForStmt) -> Iterator[tuple[n.Node, n.SymbolNode | None, Count]]:
    call = loop.expr
    if not isinstance(call, n.CallExpr) or function_name(call) != "builtins.range" or not 1 <= len(call.args) <= 3:
        return
    if any(kind != n.ARG_POS for kind in call.arg_kinds):
        return
    variable = loop.index.node if isinstance(loop.index, n.NameExpr) else None
    lower = call.args[0] if len(call.args) > 1 else None
    upper, step = call.args[min(1, len(call.args) - 1)], call.args[2] if len(call.args) > 2 else None
    yield loop, variable, Count("range", loop, lower, upper, step)


def _parameters(function: n.Node) -> list[n.Var]:
    if not isinstance(function, n.FuncDef | n.LambdaExpr):
        return []
    return [argument.variable for argument in function.arguments]
