"""The portable operations: `tp.dot`, `tp.mma`, `tp.broadcast_rows`."""

from __future__ import annotations

from mypy.nodes import TempNode
from mypy.plugin import FunctionContext
from mypy.types import Instance, Type, get_proper_type

from typedpallas import solve
from typedpallas.events import Operation
from typedpallas_mypy import answer, names, report, scope
from typedpallas_mypy.answer import Answer, Argument
from typedpallas_mypy.facts import Types
from typedpallas_mypy.hooks import Hooks
from typedpallas_mypy.value import Value


def _dot(context: FunctionContext) -> Type:
    """``tp.dot(x, y)``: the product of what two refs or values hold."""
    return _computed(context, "portable:dot", "tp.dot")


def _broadcast_rows(context: FunctionContext) -> Type:
    return _computed(context, "portable:broadcast_rows", "tp.broadcast_rows")


def _computed(context: FunctionContext, function: str, shown: str) -> Type:
    if not (answer.mentions(context) or scope.typed(context.api)):
        return context.default_return_type
    reply = Answer(context.api, context.context, context.default_return_type, shown)
    passed = answer.arguments(context)
    if passed is None:
        return reply.unknown
    return reply.of(function, [_loaded(reply.types, argument) for argument in passed])


def _loaded(types: Types, argument: Argument) -> Argument:
    """A ref as the value that is in it; anything else as it is."""
    keyword, _, kind = argument
    ref = types.ref(kind)
    if ref is None:
        return argument
    block = types.block(Value(ref.dtype, ref.shape, parameter=types.element_parameter(kind)))
    return keyword, TempNode(block), block


def _mma(context: FunctionContext) -> Type:
    """``tp.mma(acc, x, y)``: the product must have the accumulator's shape."""
    passed = answer.arguments(context)
    if passed is None or not answer.mentions(context) or len(passed) < 3:
        return context.default_return_type
    types = Types(context.api)
    acc = types.ref(passed[0][2])
    array = types.instance(names.ARRAY)
    reply = Answer(context.api, context.context, array, "tp.mma")
    product = get_proper_type(reply.of("portable:dot", [_loaded(reply.types, argument) for argument in passed[1:]]))
    value = types.value(product) if isinstance(product, Instance) else None
    if acc is None or acc.shape is None or value is None or value.shape is None:
        return context.default_return_type
    wanted = Value(acc.dtype, acc.shape)
    pairs = [(a, b) for a, b in zip(acc.shape, value.shape, strict=False) if a is not None and b is not None]
    if any(isinstance(solve.equal(a, b, types.facts), solve.Refuted) for a, b in pairs):
        event = Operation(
            function="tp.mma",
            operands=(answer.shown(types, wanted), answer.shown(types, value)),
            refusal="the product must have the shape of the accumulator",
            kind="shape",
        )
        report.judge(context.api, event, types.facts, {"": context.context})
    return context.default_return_type


_HOME = "typedpallas._portable."

HOOKS: Hooks = Hooks(
    functions={
        _HOME + "dot": _dot,
        _HOME + "mma": _mma,
        _HOME + "broadcast_rows": _broadcast_rows,
    }
)
