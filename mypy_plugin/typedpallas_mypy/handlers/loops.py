"""Loops and branches of `jax.lax`: a carry keeps its type, and the body is checked with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from mypy.checker import TypeChecker
from mypy.nodes import ARG_POS, Context, Expression, FuncDef, LambdaExpr, NameExpr
from mypy.plugin import FunctionContext, FunctionSigContext
from mypy.types import CallableType, Instance, LiteralType, TupleType, Type, get_proper_type

from typedpallas import solve
from typedpallas.dtypes import short
from typedpallas.events import Operation
from typedpallas_mypy import answer, names, report, scope
from typedpallas_mypy.facts import ANY, Types
from typedpallas_mypy.hooks import Hooks
from typedpallas_mypy.value import Value

_BODY, _INITIAL = 2, 3
"""The positions of ``body_fun`` and ``init_val`` in `fori_loop`."""


def _fori_signature(context: FunctionSigContext) -> CallableType:
    """A lambda as the body takes the loop's number and a carry like the initial value."""
    signature = context.default_signature
    if len(context.args) <= _INITIAL or not context.args[_BODY] or not context.args[_INITIAL]:
        return signature
    body = context.args[_BODY][0]
    if not isinstance(body, LambdaExpr) or not scope.typed(context.api):
        return signature
    carry = _carry(context.api.get_expression_type(context.args[_INITIAL][0]))
    arguments = list(signature.arg_types)
    arguments[_BODY] = _body_type(context.api, _number(context.api), carry)
    return signature.copy_modified(arg_types=arguments, ret_type=carry)


def _number(api: Any) -> Type:
    """The type of a loop's number."""
    return Types(api).block(Value("int32", ()))


def _body_type(api: Any, first: Type, second: Type) -> CallableType:
    """The type of a body of two parameters; what it gives back is looked at elsewhere."""
    fallback = Types(api).instance("builtins.function")
    return CallableType([first, second], [ARG_POS, ARG_POS], [None, None], ANY, fallback)


def _scan_signature(context: FunctionSigContext) -> CallableType:
    """``lax.scan(f, init, xs)``: ``f`` is given the carry and one element of ``xs`` along its first axis.

    JAX's own annotation says that ``f`` is given all of ``xs``.
    """
    signature = context.default_signature
    if len(context.args) < 3 or not context.args[0] or not context.args[1] or not scope.typed(context.api):
        return signature
    carry = _carry(context.api.get_expression_type(context.args[1][0]))
    stacked = context.api.get_expression_type(context.args[2][0]) if context.args[2] else ANY
    element = _element(Types(context.api), stacked)
    body: Type = ANY
    if isinstance(context.args[0][0], LambdaExpr):
        body = _body_type(context.api, carry, element)
    pair = TupleType([carry, ANY], Types(context.api).instance("builtins.tuple", [ANY]))
    return signature.copy_modified(arg_types=[body, ANY, ANY, *signature.arg_types[3:]], ret_type=pair, variables=[])


def _element(types: Types, whole: Type) -> Type:
    """What one step of a scan is given of arrays that are stacked along their first axis."""
    kind = get_proper_type(whole)
    if isinstance(kind, TupleType):
        return kind.copy_modified(items=[_element(types, item) for item in kind.items])
    value = types.value(kind)
    if not isinstance(kind, Instance) or kind.type.fullname != names.BLOCK or value is None:
        return ANY
    return types.block(replace(value, shape=value.shape[1:] if value.shape else None))


def _carry(initial: Type) -> Type:
    """The type of a carry: a Python number becomes whatever array the body makes of it."""
    kind = get_proper_type(initial)
    if isinstance(kind, LiteralType):
        return ANY
    if isinstance(kind, TupleType):
        return kind.copy_modified(items=[_carry(item) for item in kind.items])
    if isinstance(kind, Instance):
        if kind.type.fullname in ("builtins.int", "builtins.float", "builtins.bool", "builtins.complex"):
            return ANY
        if kind.type.fullname in ("builtins.list", "builtins.dict"):
            return kind.copy_modified(args=[_carry(argument) for argument in kind.args])
    return initial


def _fori(context: FunctionContext) -> Type:
    """The result is the carry; a body without annotations is checked with its type."""
    passed = len(context.args) > _INITIAL and context.args[_BODY] and context.args[_INITIAL]
    if not passed or not scope.typed(context.api):
        return context.default_return_type
    carry = _carry(context.arg_types[_INITIAL][0])
    body = context.args[_BODY][0]
    _check_unannotated(context.api, body, _body_type(context.api, _number(context.api), carry))
    made = get_proper_type(context.arg_types[_BODY][0])
    if isinstance(body, LambdaExpr) and isinstance(made, CallableType):
        _check_carry(context.api, body, carry, made.ret_type)
    return carry


def _check_unannotated(api: Any, body: Expression, kind: CallableType) -> None:
    """Check a nested function without annotations as a body of this type."""
    node = body.node if isinstance(body, NameExpr) else None
    if not isinstance(node, FuncDef) or node.type is not None or len(node.arg_names) != len(kind.arg_names):
        return
    checker = cast(TypeChecker, api)
    typed = kind.copy_modified(arg_names=list(node.arg_names), arg_kinds=list(node.arg_kinds))
    with checker.tscope.function_scope(node), checker.local_type_map:
        checker.check_func_item(node, type_override=typed, name=node.name)


def _check_carry(api: Any, place: Context, carry: Type, made: Type) -> None:
    """The body must give back what it was given: the first part that surely differs is an error."""
    types = Types(api)
    for before, after in _parts(carry, made):
        old, new = types.value(before), types.value(after)
        if old is None or new is None:
            continue
        kind = _difference(types, old, new)
        if kind is not None:
            was, became = answer.shown(types, old), answer.shown(types, new)
            event = Operation(
                function="fori_loop",
                operands=(was, became),
                refusal=f"the body is given {was} and gives back {became}",
                kind="shape" if kind == "shape" else "dtype",
            )
            report.judge(api, event, types.facts, {"": place})
            return


def _difference(types: Types, old: Value, new: Value) -> str | None:
    if old.shape is not None and new.shape is not None:
        if len(old.shape) != len(new.shape):
            return "shape"
        pairs = zip(old.shape, new.shape, strict=True)
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        if any(isinstance(solve.equal(a, b, types.facts), solve.Refuted) for a, b in known):
            return "shape"
    surely = old.dtype and new.dtype and not old.weak and not new.weak
    return "dtype" if surely and short(old.dtype or "") != short(new.dtype or "") else None


def _parts(before: Type, after: Type) -> Iterator[tuple[Type, Type]]:
    before, after = get_proper_type(before), get_proper_type(after)
    if isinstance(before, TupleType) and isinstance(after, TupleType) and len(before.items) == len(after.items):
        for old, new in zip(before.items, after.items, strict=True):
            yield from _parts(old, new)
    elif isinstance(before, Instance) and before.type.fullname == names.BLOCK:
        yield before, after


def _branch(context: FunctionContext) -> Type:
    """``lax.cond``: the result that both branches surely give; an array of unknown shape if they give arrays."""
    if not scope.typed(context.api):
        return context.default_return_type
    kinds = [get_proper_type(kind) for kinds in context.arg_types for kind in kinds]
    results = [get_proper_type(kind.ret_type) for kind in kinds if isinstance(kind, CallableType)]
    blocks = [kind for kind in results if isinstance(kind, Instance) and kind.type.fullname == names.BLOCK]
    if len(blocks) < 2 or len(blocks) < len(results):
        return context.default_return_type
    return (
        blocks[0]
        if all(kind == blocks[0] for kind in blocks)
        else answer.unknown(Types(context.api), blocks[0], anew=True)
    )


_CONTROL = "jax._src.lax.control_flow."

HOOKS: Hooks = Hooks(
    functions={
        _CONTROL + "loops.fori_loop": _fori,
        _CONTROL + "conditionals.cond": _branch,
    },
    function_signatures={
        _CONTROL + "loops.fori_loop": _fori_signature,
        _CONTROL + "loops.scan": _scan_signature,
    },
)
