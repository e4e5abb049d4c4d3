"""Whether a place in a kernel's body is surely compiled, and what becomes of a view that is made there."""

from __future__ import annotations

from typing import Any, Final, Literal

from mypy import nodes as n

from typedpallas_mypy import counting
from typedpallas_mypy.facts import Types
from typedpallas_mypy.forms import Form, parts
from typedpallas_mypy.handlers.body_tree import Body
from typedpallas_mypy.handlers.calls_source import function_name
from typedpallas_mypy.starts import Reader

_COPIES: Final = ("async_copy", "sync_copy", "make_async_copy")
_ENDS: Final = 2
"""How many of a copy's operands are its ends."""
_PASSED: Final = (n.AssignmentStmt, n.OperatorAssignmentStmt, n.ExpressionStmt, n.ReturnStmt, n.Block, n.WithStmt)
_VALUES: Final = (
    *(n.CallExpr, n.OpExpr, n.UnaryExpr, n.IndexExpr, n.MemberExpr, n.TupleExpr, n.ListExpr),
    *(n.StarExpr, n.ComparisonExpr),
)
_STEPS: Final = ("first", "last")
"""Decorators of ours that run what they decorate in some step."""


class Reach:
    """One kernel's body."""

    def __init__(self, api: Any, body: Body) -> None:
        self._api = api
        self._body = body
        self._reader = Reader(api, Types(api))
        self._leaves_early = any(
            isinstance(node, n.ReturnStmt | n.RaiseStmt | n.BreakStmt | n.ContinueStmt)
            and not isinstance(body.parents.get(body.parents[node]), n.FuncDef | n.LambdaExpr)
            for node in body.nodes
        )

    def use(self, view: n.IndexExpr) -> Literal["copy", "view"] | None:
        """What becomes of ``x.at[...]``: an end of a copy, or indexed again; none where that is not seen."""
        above = self._body.parents.get(view)
        if isinstance(above, n.IndexExpr) and above.base is view:
            return "view"
        if not isinstance(above, n.CallExpr):
            return None
        name = function_name(above)
        kind = name.rpartition(".")[2]
        if kind not in _COPIES or not name.startswith(("jax.", "typedpallas.")):
            return None
        place = next((i for i, arg in enumerate(above.args) if arg is view), _ENDS)
        named = (above.arg_names[place] or "") if place < len(above.args) else ""
        if place >= _ENDS and not named.startswith(("src", "dst")):
            return None
        return "copy" if kind != "make_async_copy" or self._starts() else None

    def _starts(self) -> bool:
        return any(isinstance(node, n.MemberExpr) and node.name in ("start", "wait") for node in self._body.nodes)

    def around(self, node: n.Node) -> tuple[Form, ...] | None:
        """What the loops around a place count; none where it is not sure to be compiled, if they have turns."""
        if self._leaves_early:
            return None
        found: list[Form] = []
        below, at = node, self._body.parents.get(node)
        while at is not None and at is not self._body.function:
            if isinstance(at, n.ForStmt):
                if below is at.body and not self._has_turns(at):
                    return None
            elif isinstance(at, n.FuncDef | n.LambdaExpr):
                loop = counting.counts(self._api.tree).by_body.get(at)
                if loop is not None:
                    found.append(self._reader.turns(loop))
                elif not self._is_run(at):
                    return None
            elif not isinstance(at, (*_PASSED, *_VALUES, n.Decorator)) or _stops_early(at):
                return None
            below, at = at, self._body.parents.get(at)
        return tuple(found) if at is self._body.function else None

    def _has_turns(self, loop: n.ForStmt) -> bool:
        """Whether a loop of Python's runs at all, whatever the kernel's dims are."""
        count = counting.counts(self._api.tree).by_body.get(loop)
        upper = None if count is None or count.lower or count.step else self._reader.evaluator.size(count.upper)
        return upper is not None and upper.const is not None and upper.const > 0

    def _is_run(self, function: n.FuncDef | n.LambdaExpr) -> bool:
        """Whether a function is the body of a ``pl.when`` whose condition moves, or of `tp.first` or `tp.last`."""
        above = self._body.parents.get(function)
        if not isinstance(above, n.Decorator) or len(above.decorators) != 1:
            return False
        decorator = above.decorators[0]
        if isinstance(decorator, n.RefExpr):
            module, _, name = decorator.fullname.rpartition(".")
            return module.startswith("typedpallas") and name in _STEPS
        name = function_name(decorator)
        if not isinstance(decorator, n.CallExpr) or not name.startswith("jax.") or not name.endswith(".when"):
            return False
        return len(decorator.args) == 1 and _moves(self._reader.form(decorator.args[0]))


def _stops_early(node: n.Node) -> bool:
    """Whether Python may leave out the right side."""
    return isinstance(node, n.OpExpr) and node.op in ("and", "or")


def _moves(form: Form) -> bool:
    """Whether a condition depends on what the kernel knows only when it runs."""
    return any(part.op in ("program", "turn", "data") for part in parts(form))
