"""A kernel's body as a tree: what stands above each node, and what is done with each of the kernel's refs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from mypy import nodes as n

from typedpallas.records import record
from typedpallas_mypy.handlers import calls_uses
from typedpallas_mypy.handlers.calls_source import function_name

type Use = Literal["load", "store", "update", "look", "other"]
"""What a place does with a ref. ``look``: only at its shape or type; ``other``: anything, as far as is known."""

_LOOKS: Final = ("shape", "dtype", "ndim", "size", "aval")
_LIKE: Final = ("zeros_like", "ones_like", "full_like", "empty_like", "shape", "ndim", "size")
_KEEPS_NOTHING: Final = ("*", "&")
"""Updates that may make something definite of anything: 0 times a whole number is 0."""


@record(frozen=True)
class Mention:
    """One place in a kernel that names one of its parameters."""

    node: n.NameExpr
    use: Use
    whole: n.Node
    """The load, the store's target, or the name itself."""


class Body:
    """The body of one function, nested functions included."""

    def __init__(self, function: n.FuncDef) -> None:
        self.function = function
        self.parents: dict[n.Node, n.Node] = {}
        self.nodes: list[n.Node] = []
        self._read(function.body, function)

    def _read(self, node: Any, parent: n.Node) -> None:
        if isinstance(node, list | tuple):
            for part in node:
                self._read(part, parent)
        elif isinstance(node, n.Node):
            self.parents[node] = parent
            self.nodes.append(node)
            for part in calls_uses.parts(node):
                self._read(part, node)

    @property
    def is_stub(self) -> bool:
        """Whether nothing is written there yet: a docstring, ``...``, ``pass``, ``raise``."""
        kinds = (n.EllipsisExpr, n.StrExpr)
        return all(
            isinstance(s, n.PassStmt | n.RaiseStmt) or (isinstance(s, n.ExpressionStmt) and isinstance(s.expr, kinds))
            for s in self.function.body.body
        )

    def parameter(self, name: str) -> n.Var | None:
        """The variable of a parameter."""
        return next((a.variable for a in self.function.arguments if a.variable.name == name), None)

    def names(self, variable: n.SymbolNode, binding: n.Node) -> Iterator[n.NameExpr]:
        """Every place that names something, but for where it is bound."""
        for node in self.nodes:
            if isinstance(node, n.NameExpr) and node.node is variable and self.parents[node] is not binding:
                yield node

    def mentions(self, variable: n.Var) -> Iterator[Mention]:
        """Every place that names a variable."""
        for node in self.nodes:
            if isinstance(node, n.NameExpr) and node.node is variable:
                yield self._mention(node)

    def _mention(self, name: n.NameExpr) -> Mention:
        above = self.parents[name]
        if isinstance(above, n.IndexExpr) and above.base is name:
            return Mention(name, self.indexed(above), above)
        if isinstance(above, n.MemberExpr) and above.name in _LOOKS:
            return Mention(name, "look", name)
        if isinstance(above, n.CallExpr) and above.callee is not name and _is_like(above):
            return Mention(name, "look", name)
        return Mention(name, "other", name)

    def above(self, node: n.Node) -> Iterator[n.Node]:
        """What a node stands in, from the inside out."""
        at = self.parents.get(node)
        while at is not None:
            yield at
            at = self.parents.get(at)

    def indexed(self, access: n.IndexExpr) -> Use:
        """What is done with the part of a ref that an index selects."""
        above = self.parents[access]
        if isinstance(above, n.AssignmentStmt) and access in above.lvalues:
            return "store"
        if isinstance(above, n.OperatorAssignmentStmt) and above.lvalue is access:
            return "other" if above.op in _KEEPS_NOTHING else "update"
        if isinstance(above, n.MemberExpr):
            return "look" if above.name in _LOOKS else "load"
        if isinstance(above, n.CallExpr) and _is_like(above):
            return "look"
        assigned = isinstance(above, n.TupleExpr | n.ListExpr | n.StarExpr | n.DelStmt | n.ForStmt)
        return "other" if assigned else "load"


def _is_like(call: n.CallExpr) -> bool:
    module, _, name = function_name(call).rpartition(".")
    return name in _LIKE and module.startswith("jax.")
