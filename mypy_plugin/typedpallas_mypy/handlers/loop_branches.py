"""`lax.cond` and `lax.switch`: every branch is given the operands, and all give back the same types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mypy.nodes import Expression, LambdaExpr, ListExpr, TupleExpr
from mypy.plugin import FunctionContext, FunctionSigContext
from mypy.types import CallableType, Instance, TupleType, Type, get_proper_type

from typedpallas.records import record
from typedpallas_mypy import answer, names, scope
from typedpallas_mypy.facts import ANY, Types
from typedpallas_mypy.handlers import loop_parts as parts
from typedpallas_mypy.handlers.calls_kernel import function_of
from typedpallas_mypy.handlers.calls_source import Source
from typedpallas_mypy.hooks import Hooks

_CONDITIONALS: Final = "jax._src.lax.control_flow.conditionals."
_OPERANDS: Final = {"cond": 3, "switch": 2}
"""The position of the operands among the arguments."""


@record(frozen=True)
class _Branch:
    """One branch: where it is written, and what it gives back; none where that is not known."""

    place: Expression
    result: Type | None


def _operands(context: FunctionContext | FunctionSigContext, function: str) -> Sequence[Expression]:
    position = _OPERANDS[function]
    return context.args[position] if len(context.args) > position else ()


# ---------------------------------------------------------------------- before the arguments are checked


def _cond_signature(context: FunctionSigContext) -> CallableType:
    """Lambdas are given the operands; anything else is let through."""
    signature, operands = context.default_signature, _operands(context, "cond")
    if not operands or not scope.typed(context.api):
        return signature
    body = parts.body_type(context.api, *map(context.api.get_expression_type, operands))
    kinds = list(signature.arg_types)
    for position in (1, 2):
        given = context.args[position]
        kinds[position] = body if given and isinstance(given[0], LambdaExpr) else ANY
    return signature.copy_modified(arg_types=kinds, variables=[])


def _switch_signature(context: FunctionSigContext) -> CallableType:
    """The same for a sequence of lambdas; mypy makes `object` of a list of functions of several kinds."""
    signature, operands = context.default_signature, _operands(context, "switch")
    given = context.args[1][0] if len(context.args) > 1 and context.args[1] else None
    if given is None or not scope.typed(context.api):
        return signature
    items = given.items if isinstance(given, ListExpr | TupleExpr) else ()
    kinds = list(signature.arg_types)
    kinds[1] = ANY
    if items and all(isinstance(item, LambdaExpr) for item in items):
        body = parts.body_type(context.api, *map(context.api.get_expression_type, operands))
        kinds[1] = Types(context.api).instance("typing.Sequence", [body])
    return signature.copy_modified(arg_types=kinds, variables=[])


# ---------------------------------------------------------------------- results


def _cond(context: FunctionContext) -> Type:
    expressions = [given[0] for given in context.args[1:3] if given]
    return _result(context, "cond", expressions if len(expressions) > 1 else None)


def _switch(context: FunctionContext) -> Type:
    given = context.args[1][0] if len(context.args) > 1 and context.args[1] else None
    items = Source(context.api, Types(context.api)).items(given) if given is not None else None
    return _result(context, "switch", items)


def _result(context: FunctionContext, function: str, expressions: Sequence[Expression] | None) -> Type:
    """What all branches give; an array of unknown shape where one of them gives an array of which less is known."""
    if not scope.typed(context.api):
        return context.default_return_type
    if not expressions:
        return answer.unknown(Types(context.api), context.default_return_type, anew=True)
    position = _OPERANDS[function]
    operands = context.arg_types[position] if len(context.arg_types) > position else []
    body = parts.body_type(context.api, *operands)
    branches = [_branch(context, expression, body) for expression in expressions]
    known = [branch.result for branch in branches if branch.result is not None]
    for branch in branches[1:]:
        if branches[0].result is not None and branch.result is not None:
            parts.check_branch(context.api, function, branch.place, branches[0].result, branch.result)
    if len(known) == len(branches) and all(kind == known[0] for kind in known):
        return known[0]
    first = known[0] if known else context.default_return_type
    return answer.unknown(Types(context.api), first, anew=True) if _is_block(first) else _unknown(context, first)


def _unknown(context: FunctionContext, first: Type) -> Type:
    kind = get_proper_type(first)
    return ANY if isinstance(kind, TupleType) else answer.unknown(Types(context.api), context.default_return_type)


def _branch(context: FunctionContext, expression: Expression, body: CallableType) -> _Branch:
    parts.check_unannotated(context.api, expression, body)
    made = context.api.lookup_type(expression) if context.api.has_type(expression) else None  # type: ignore[attr-defined]
    kind = function_of(made) if made is not None else None
    if kind is None or kind.variables:
        return _Branch(expression, None)
    result = get_proper_type(kind.ret_type)
    known = _is_block(result) or (isinstance(result, TupleType) and all(map(_is_block, result.items)))
    return _Branch(expression, result if known else None)


def _is_block(kind: Type) -> bool:
    proper = get_proper_type(kind)
    return isinstance(proper, Instance) and proper.type.fullname == names.BLOCK


HOOKS: Hooks = Hooks(
    functions={_CONDITIONALS + "cond": _cond, _CONDITIONALS + "switch": _switch},
    function_signatures={_CONDITIONALS + "cond": _cond_signature, _CONDITIONALS + "switch": _switch_signature},
)
