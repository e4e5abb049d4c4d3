"""`pl.run_scoped`: buffers and semaphores for the length of a function, which need no annotations there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from mypy import nodes as n
from mypy.checker import TypeChecker
from mypy.plugin import FunctionContext, FunctionSigContext
from mypy.types import CallableType, Type

from typedpallas import tpu
from typedpallas.spaces import MemorySpace
from typedpallas_mypy import names, scope
from typedpallas_mypy.facts import ANY, Types
from typedpallas_mypy.handlers import loop_parts, specs
from typedpallas_mypy.handlers.calls_source import Source, function_name
from typedpallas_mypy.hooks import Hooks
from typedpallas_mypy.value import Value

RUN_SCOPED: Final = "jax._src.pallas.primitives.run_scoped"
_OPTIONS: Final = ("collective_axes",)
_SEMAPHORES: Final[dict[str, type[MemorySpace]]] = {"DMA": tpu.DMA, "REGULAR": tpu.REGULAR, "BARRIER": tpu.BARRIER}


def is_run_scoped(call: n.CallExpr) -> bool:
    """Whether a call runs a function with scratch, or, as a decorator, will run the one below it."""
    return _scoped_arguments(call) is not None


def _scoped_arguments(call: n.CallExpr) -> list[tuple[str | None, n.Expression]] | None:
    """The arguments after the function: of ``run_scoped(f, ...)`` and of ``functools.partial(run_scoped, ...)``."""
    if any(kind in (n.ARG_STAR, n.ARG_STAR2) for kind in call.arg_kinds) or not call.args:
        return None
    first = call.args[0]
    partial = function_name(call) == "functools.partial" and isinstance(first, n.RefExpr)
    if not (partial and cast(n.RefExpr, first).fullname == RUN_SCOPED) and function_name(call) != RUN_SCOPED:
        return None
    pairs = zip(call.arg_names[1:], call.args[1:], strict=True)
    return [(name, argument) for name, argument in pairs if name not in _OPTIONS]


def scratch(call: n.CallExpr, function: n.FuncItem) -> Mapping[n.Var, n.Expression]:
    """What each parameter of a function is given by the `run_scoped` that runs it; empty where that is not known."""
    given = _scoped_arguments(call)
    if given is None or len(given) != len(function.arguments):
        return {}
    unnamed: Iterator[n.Expression] = iter([expression for name, expression in given if name is None])
    named = {name: expression for name, expression in given if name is not None}
    found = {a.variable: named.get(a.variable.name) or next(unnamed, None) for a in function.arguments}
    return {variable: expression for variable, expression in found.items() if expression is not None}


def semaphore(source: Source, expression: n.Expression) -> type[MemorySpace] | None:
    """The kind of semaphore that an expression asks for: ``pltpu.SemaphoreType.DMA``, ``...DMA((2,))``."""
    found = source.definition(expression)
    kind = found.callee if isinstance(found, n.CallExpr) else found
    if not isinstance(kind, n.MemberExpr) or not isinstance(kind.expr, n.RefExpr):
        return None
    return _SEMAPHORES.get(kind.name) if kind.expr.fullname.endswith("mosaic.core.SemaphoreType") else None


# ---------------------------------------------------------------------- types


def _type(source: Source, expression: n.Expression) -> Type:
    """The type of the ref that an expression asks for."""
    types = source.types
    kind = semaphore(source, expression)
    buffer = specs.scratch(source, expression) if kind is None else None
    space = kind if kind is not None else buffer.space if buffer is not None else None
    if space is None:
        return ANY
    try:
        place = types.instance(f"{space.__module__}.{space.__name__}")
    except LookupError:
        return ANY
    if buffer is None:
        return types.instance(names.STATIC + "Scratch", [place, ANY])
    value = Value(buffer.dtype, buffer.shape)
    return types.instance(names.STATIC + "Scratch", [place, types.dtype_type(value), *types.dims(buffer.shape)])


def _signature(context: FunctionSigContext) -> CallableType:
    """A lambda is given refs of these types."""
    signature, call = context.default_signature, context.context
    function = context.args[0][0] if context.args and context.args[0] else None
    if not isinstance(function, n.LambdaExpr) or not isinstance(call, n.CallExpr) or not scope.typed(context.api):
        return signature
    body = _body(Source(context.api, Types(context.api)), call, function)
    return signature if body is None else signature.copy_modified(arg_types=[body, *signature.arg_types[1:]])


def _body(source: Source, call: n.CallExpr, function: n.FuncItem) -> CallableType | None:
    given = scratch(call, function)
    if len(given) < len(function.arguments):
        return None
    return loop_parts.body_type(source.api, *(_type(source, given[a.variable]) for a in function.arguments))


def _run(context: FunctionContext) -> Type:
    """Check a function without annotations with what it is given; what it gives back is the result."""
    call: n.Context | None = context.context
    node: Any = None
    if isinstance(call, n.Decorator):
        node, call = call.func, next((d for d in call.original_decorators if isinstance(d, n.CallExpr)), None)
    elif isinstance(call, n.CallExpr) and call.args and isinstance(call.args[0], n.NameExpr):
        node = call.args[0].node
    if isinstance(call, n.CallExpr) and isinstance(node, n.FuncDef) and scope.typed(context.api):
        _check(Source(context.api, Types(context.api)), call, node)
    return context.default_return_type


def _check(source: Source, call: n.CallExpr, node: n.FuncDef) -> None:
    body = _body(source, call, node) if node.type is None else None
    if body is not None:
        checker = cast(TypeChecker, source.api)
        typed = body.copy_modified(arg_names=list(node.arg_names), arg_kinds=list(node.arg_kinds))
        with checker.tscope.function_scope(node), checker.local_type_map:
            checker.check_func_item(node, type_override=typed, name=node.name)


HOOKS: Hooks = Hooks(functions={RUN_SCOPED: _run, "run_scoped": _run}, function_signatures={RUN_SCOPED: _signature})
