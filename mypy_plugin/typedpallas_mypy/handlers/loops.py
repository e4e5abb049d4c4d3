"""Loops of `jax.lax`: a carry keeps its type, and the body is checked with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from mypy.nodes import Expression, LambdaExpr
from mypy.plugin import FunctionContext, FunctionSigContext
from mypy.types import CallableType, TupleType, Type, get_proper_type

from typedpallas_mypy import scope
from typedpallas_mypy.evaluate import Evaluator
from typedpallas_mypy.facts import ANY, Types
from typedpallas_mypy.handlers import loop_parts as parts
from typedpallas_mypy.hooks import Hooks
from typedpallas_mypy.value import Value

type Lists = Sequence[Sequence[Any]]


def _given(context: FunctionContext | FunctionSigContext, *positions: int) -> bool:
    """Whether the call stands in a typed function and has an argument at each of these positions."""
    lists: Lists = context.args
    has_all = all(len(lists) > position and lists[position] for position in positions)
    return has_all and scope.typed(context.api)


def _with_bodies(signature: CallableType, args: Lists, bodies: dict[int, CallableType], result: Type) -> CallableType:
    """A signature in which lambdas at these positions take what they are given, and anything else is let through."""
    kinds = list(signature.arg_types)
    for position, body in bodies.items():
        kinds[position] = body if isinstance(args[position][0], LambdaExpr) else ANY
    return signature.copy_modified(arg_types=kinds, ret_type=result, variables=[])


def _look_into(
    context: FunctionContext, function: str, position: int, body: CallableType, carry: Type | None
) -> None:
    """Check a body that has no annotations, and that a lambda gives back what it was given."""
    expression: Expression = context.args[position][0]
    parts.check_unannotated(context.api, expression, body)
    made = get_proper_type(context.arg_types[position][0])
    if carry is not None and isinstance(expression, LambdaExpr) and isinstance(made, CallableType):
        parts.check_carry(context.api, function, expression, carry, _first(made.ret_type, function))


def _first(made: Type, function: str) -> Type:
    """The carry that a body gives back: of a scan's, the first of two."""
    kind = get_proper_type(made)
    if function != "scan":
        return kind
    return kind.items[0] if isinstance(kind, TupleType) and len(kind.items) == 2 else ANY


# ---------------------------------------------------------------------- fori_loop and while_loop

_BODY, _INITIAL = 2, 3
"""The positions of ``body_fun`` and ``init_val`` in `fori_loop`."""


def _number(api: Any) -> Type:
    """The type of a loop's number."""
    return Types(api).block(Value("int32", ()))


def _fori_signature(context: FunctionSigContext) -> CallableType:
    """A lambda as the body takes the loop's number and a carry like the initial value."""
    signature = context.default_signature
    if not _given(context, _BODY, _INITIAL) or not isinstance(context.args[_BODY][0], LambdaExpr):
        return signature
    carry = parts.carry_of(context.api.get_expression_type(context.args[_INITIAL][0]))
    arguments = list(signature.arg_types)
    arguments[_BODY] = parts.body_type(context.api, _number(context.api), carry)
    return signature.copy_modified(arg_types=arguments, ret_type=carry)


def _fori(context: FunctionContext) -> Type:
    """The result is the carry; a body without annotations is checked with its type."""
    if not _given(context, _BODY, _INITIAL):
        return context.default_return_type
    carry = parts.carry_of(context.arg_types[_INITIAL][0])
    _look_into(context, "fori_loop", _BODY, parts.body_type(context.api, _number(context.api), carry), carry)
    return carry


def _while_signature(context: FunctionSigContext) -> CallableType:
    """Lambdas as condition and body take a carry like the initial value."""
    signature = context.default_signature
    if not _given(context, 0, 1, 2):
        return signature
    carry = parts.carry_of(context.api.get_expression_type(context.args[2][0]))
    body = parts.body_type(context.api, carry)
    return _with_bodies(
        signature.copy_modified(arg_types=[*signature.arg_types[:2], ANY]), context.args, {0: body, 1: body}, carry
    )


def _while(context: FunctionContext) -> Type:
    if not _given(context, 0, 1, 2):
        return context.default_return_type
    carry = parts.carry_of(context.arg_types[2][0])
    body = parts.body_type(context.api, carry)
    _look_into(context, "while_loop", 0, body, None)
    _look_into(context, "while_loop", 1, body, carry)
    return carry


# ---------------------------------------------------------------------- scan and map


def _scan_signature(context: FunctionSigContext) -> CallableType:
    """``lax.scan(f, init, xs)``: ``f`` is given the carry and one element of ``xs`` along its first axis.

    JAX's own annotation says that ``f`` is given all of ``xs``.
    """
    signature = context.default_signature
    if not _given(context, 0, 1) or len(context.args) < 3:
        return signature
    carry = parts.carry_of(context.api.get_expression_type(context.args[1][0]))
    whole = context.api.get_expression_type(context.args[2][0]) if context.args[2] else ANY
    body = parts.body_type(context.api, carry, parts.element(Types(context.api), whole))
    pair = TupleType([carry, ANY], Types(context.api).instance("builtins.tuple", [ANY]))
    loose = signature.copy_modified(arg_types=[ANY, ANY, ANY, *signature.arg_types[3:]])
    return _with_bodies(loose, context.args, {0: body}, pair)


def _scan(context: FunctionContext) -> Type:
    """The carry, and what the steps give, stacked."""
    if not _given(context, 0, 1) or len(context.args) < 3:
        return context.default_return_type
    types = Types(context.api)
    carry = parts.carry_of(context.arg_types[1][0])
    whole = context.arg_types[2][0] if context.args[2] else ANY
    _look_into(context, "scan", 0, parts.body_type(context.api, carry, parts.element(types, whole)), carry)
    steps = parts.length(types, whole)
    if steps is None and len(context.args) > 3 and context.args[3]:
        steps = Evaluator(context.api, types).size(context.args[3][0], context.arg_types[3][0])
    made = get_proper_type(context.arg_types[0][0])
    given = get_proper_type(made.ret_type) if isinstance(made, CallableType) else ANY
    one = given.items[1] if isinstance(given, TupleType) and len(given.items) == 2 else ANY
    return TupleType([carry, parts.stacked(types, one, steps)], types.instance("builtins.tuple", [ANY]))


def _map_signature(context: FunctionSigContext) -> CallableType:
    """``lax.map(f, xs)``: a lambda is given one element of ``xs``."""
    signature = context.default_signature
    if not _given(context, 0, 1):
        return signature
    whole = context.api.get_expression_type(context.args[1][0])
    body = parts.body_type(context.api, parts.element(Types(context.api), whole))
    return _with_bodies(signature, context.args, {0: body}, signature.ret_type)


def _map(context: FunctionContext) -> Type:
    if not _given(context, 0, 1):
        return context.default_return_type
    types, whole = Types(context.api), context.arg_types[1][0]
    _look_into(context, "map", 0, parts.body_type(context.api, parts.element(types, whole)), None)
    made = get_proper_type(context.arg_types[0][0])
    return parts.stacked(types, made.ret_type, parts.length(types, whole)) if isinstance(made, CallableType) else ANY


_LOOPS: Final = "jax._src.lax.control_flow.loops."

_FUNCTIONS: dict[str, Callable[[FunctionContext], Type]] = {
    _LOOPS + "fori_loop": _fori,
    _LOOPS + "while_loop": _while,
    _LOOPS + "scan": _scan,
    _LOOPS + "map": _map,
}
_SIGNATURES: dict[str, Callable[[FunctionSigContext], CallableType]] = {
    _LOOPS + "fori_loop": _fori_signature,
    _LOOPS + "while_loop": _while_signature,
    _LOOPS + "scan": _scan_signature,
    _LOOPS + "map": _map_signature,
}

HOOKS: Hooks = Hooks(functions={**_FUNCTIONS}, function_signatures={**_SIGNATURES})
