"""When the inner functions of a body run: at once, in a branch or a loop, for the length of a scope, or who knows."""

from __future__ import annotations

from typing import Final

from mypy import nodes as n

from typedpallas_mypy.handlers import scoped
from typedpallas_mypy.handlers.body_text import Stable
from typedpallas_mypy.handlers.body_tree import Body
from typedpallas_mypy.handlers.calls_source import function_name

_LOOPS: Final = ("fori_loop", "while_loop", "scan", "map")
LATER: Final = (n.TryStmt, n.MatchStmt, n.GeneratorExpr, n.DictionaryComprehension, n.ClassDef, n.OverloadedFuncDef)
"""What runs at another time, or perhaps not at all: semaphores that are used in there are not followed."""


class Runs:
    """The inner functions of a body of which it can be told when they run."""

    def __init__(self, body: Body, stable: Stable) -> None:
        self._body = body
        self._stable = stable
        self._known: dict[n.Node, bool] = {}

    def in_sight(self, above: n.Node) -> bool:
        """Whether it can be told when something that stands in a node is run."""
        if isinstance(above, n.OpExpr):
            return above.op not in ("and", "or")
        if not isinstance(above, n.FuncDef | n.LambdaExpr):
            return not isinstance(above, (*LATER, n.ConditionalExpr))
        if above not in self._known:
            self._known[above] = False  # what calls itself
            self._known[above] = above is self._body.function or self._is_run(above)
        return self._known[above]

    def _is_run(self, function: n.FuncDef | n.LambdaExpr) -> bool:
        """Whether a function is only called, or run by `pl.when`, `pl.loop` or a loop of JAX, and that in sight."""
        above = self._body.parents[function]
        if isinstance(above, n.Decorator):
            made = above.original_decorators
            return len(made) == 1 and isinstance(made[0], n.CallExpr) and bool(runs(made[0]))
        if isinstance(function, n.LambdaExpr) and self._hands_on(function):
            return True
        name = function if isinstance(function, n.FuncDef) else bound_to(above, function)
        if name is None or (isinstance(name, n.Var) and not self._stable(name)):
            return False
        mentions = list(self._body.names(name, above))
        return all(self._is_called(m) or self._hands_on(m) for m in mentions) and all(
            self.in_sight(outer) for mention in mentions for outer in self._body.above(mention)
        )

    def _is_called(self, mention: n.Expression) -> bool:
        call = self._body.parents[mention]
        return isinstance(call, n.CallExpr) and call.callee is mention

    def _hands_on(self, mention: n.Expression) -> bool:
        """Whether a function is handed to something that runs it at once: ``pl.when(test)(f)``, a loop."""
        call = self._body.parents[mention]
        if not isinstance(call, n.CallExpr) or mention not in call.args:
            return False
        if isinstance(call.callee, n.CallExpr):
            return bool(runs(call.callee)) and len(call.args) == 1
        return is_loop(call) or (mention is call.args[0] and runs(call) == "scoped")


def runs(call: n.CallExpr) -> str:
    """``when``, ``loop`` or ``scoped`` where a call gives what runs a function so."""
    if scoped.is_run_scoped(call):
        return "scoped"
    name = function_name(call)
    kind = name.rpartition(".")[2]
    return kind if name.startswith("jax.") and kind in ("when", "loop") and call.args else ""


def is_loop(call: n.CallExpr) -> bool:
    """Whether a call is a loop of `jax.lax`, which runs the functions that it is given."""
    name = function_name(call)
    return name.startswith("jax.") and name.rpartition(".")[2] in _LOOPS


def bound_to(statement: n.Node, value: n.Expression) -> n.Var | None:
    """The one variable that a statement binds to a value."""
    if not isinstance(statement, n.AssignmentStmt) or statement.rvalue is not value or len(statement.lvalues) != 1:
        return None
    target = statement.lvalues[0]
    return target.node if isinstance(target, n.NameExpr) and isinstance(target.node, n.Var) else None
