"""What a function gives back against its annotation, told by the rules where an expression with a hook is returned.

mypy refuses it too, by the whole type. Where a rule has said what is wrong, mypy is given nothing to refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mypy.nodes import Block, Expression, FuncItem, ReturnStmt, Statement
from mypy.subtypes import is_subtype
from mypy.types import CallableType, Instance, Type, get_proper_type

from typedpallas.events import Argument, RefFact
from typedpallas_mypy import names, report
from typedpallas_mypy.bindings import blocks
from typedpallas_mypy.facts import ANY, Types
from typedpallas_mypy.hooks import Hook

_KEPT = 256
_RETURNS: dict[int, tuple[Block, frozenset[int]]] = {}
"""By the body: dmypy keeps a function that was edited, and gives it another body."""


def judged(hook: Hook) -> Hook:
    """``hook``, whose result is held against the annotation of the function that gives it back."""

    def run(context: Any) -> Type:
        result: Type = hook(context)
        if not isinstance(result, Instance) or result.type.fullname != names.BLOCK:
            return result
        function = next((item for item in reversed(context.api.scope.stack) if isinstance(item, FuncItem)), None)
        declared = _declared(function)
        if function is None or declared is None or id(context.context) not in _returns(function):
            return result
        if is_subtype(result, declared) or not _refused(context, function.name or "the function", declared, result):
            return result
        return ANY

    return run


def _declared(function: FuncItem | None) -> Instance | None:
    """The block that a function says it gives back; none if it says anything else."""
    if function is None or not isinstance(function.type, CallableType):
        return None
    kind = get_proper_type(function.type.ret_type)
    return kind if isinstance(kind, Instance) and kind.type.fullname == names.BLOCK else None


def _returns(function: FuncItem) -> frozenset[int]:
    """The ids of the expressions that a function gives back; the last functions are remembered."""
    known = _RETURNS.get(id(function.body))
    if known is None or known[0] is not function.body:
        while len(_RETURNS) >= _KEPT:
            _RETURNS.pop(next(iter(_RETURNS)))
        found = frozenset(id(expression) for expression in _returned(function.body.body))
        known = _RETURNS[id(function.body)] = (function.body, found)
    return known[1]


def _returned(statements: Sequence[Statement]) -> Iterator[Expression]:
    for statement in statements:
        if isinstance(statement, ReturnStmt) and statement.expr is not None:
            yield statement.expr
        elif not isinstance(statement, FuncItem):
            for block in blocks(statement):
                yield from _returned(block.body)


def _refused(context: Any, function: str, declared: Instance, result: Instance) -> bool:
    types = Types(context.api)
    wanted, given = types.value(declared), types.value(result)
    if wanted is None or given is None:
        return False
    event = Argument(
        kernel=function,
        ref=RefFact(name="return", space=None, dtype=wanted.dtype, shape=wanted.shape),
        source="",
        dtype=None if given.weak else given.dtype,
        block=given.shape,
        what="result",
    )
    return report.judge(context.api, event, types.facts, {"": context.context})
