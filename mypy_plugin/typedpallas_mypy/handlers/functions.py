"""Functions of JAX: what they give for typed arrays is asked of JAX itself."""

from __future__ import annotations

from mypy.nodes import CallExpr, Expression, MemberExpr, NameExpr, RefExpr, StrExpr
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import CallableType, Instance, Type, get_proper_type

from typedpallas_mypy import answer, config, names, report, scope, transfer
from typedpallas_mypy.answer import Answer, Argument
from typedpallas_mypy.facts import Types
from typedpallas_mypy.hooks import Hook, Hooks
from typedpallas_mypy.value import one


def function(fullname: str) -> Hook | None:
    """The hook for any function of JAX."""
    if not fullname.startswith("jax."):
        return None
    if fullname.startswith(_NEVER_PUBLIC):
        return lambda context: _called(context, fullname) if config.shows_open() else _opaque(context)
    return lambda context: _called(context, fullname)


_NEVER_PUBLIC = ("jax._src.pallas.", "jax.experimental.pallas.")
"""Where nothing is that JAX could evaluate by itself."""


def _opaque(context: FunctionContext) -> Type:
    """A function of Pallas: where arrays meet it, an array that it gives has an unknown shape."""
    if not scope.concerned(context.api) or not (answer.mentions(context) or scope.typed(context.api)):
        return context.default_return_type
    return answer.unknown(Types(context.api), context.default_return_type)


def method(fullname: str) -> Hook | None:
    """The hook for what is called like a function but is an object (`jnp.add`, `jax.nn.relu`), and other methods."""
    if fullname.startswith("jax.") and fullname.endswith(".__call__"):
        return _object_called
    return other(fullname)


def _object_called(context: MethodContext) -> Type:
    callee = context.context.callee if isinstance(context.context, CallExpr) else None
    return _called(context, callee.fullname if isinstance(callee, RefExpr) else "")


def _called(context: FunctionContext | MethodContext, fullname: str) -> Type:
    default = context.default_return_type
    if not scope.concerned(context.api):
        return default
    typed = answer.mentions(context)
    if not typed and not scope.typed(context.api):
        return default
    if transfer.is_foreign(fullname) and not config.shows_open():
        return answer.unknown(Types(context.api), default)
    call = context.context
    reply = Answer(context.api, call, default, _shown(call.callee) if isinstance(call, CallExpr) else fullname)
    passed = answer.arguments(context)
    if passed is None or not fullname.startswith("jax.") or not (typed or _pure(passed)):
        return reply.unknown
    return reply.of(fullname, passed)


def _pure(passed: list[Argument]) -> bool:
    """Whether a call without typed arrays may be evaluated: it has no text, which may name a file."""
    return not any(isinstance(expression, StrExpr) for _, expression, _ in passed)


def _shown(callee: Expression) -> str:
    """A callee as written: ``jnp.dot``."""
    if isinstance(callee, MemberExpr):
        return f"{_shown(callee.expr)}.{callee.name}"
    return callee.name if isinstance(callee, NameExpr) else "this"


def _program_id(context: FunctionContext) -> Type:
    """``pl.program_id``: an `i32` scalar."""
    if not scope.typed(context.api):
        return context.default_return_type
    return Types(context.api).block(one("int32", ()))


def other(fullname: str) -> Hook | None:
    """The hook for any other function: inside a kernel, a `jax.Array` that it gives is one of unknown shape."""
    root = fullname.partition(".")[0]
    if root in names.LIBRARIES_OF_OTHERS:
        return None
    return _array_is_unknown


def _array_is_unknown(context: FunctionContext | MethodContext) -> Type:
    if not scope.typed(context.api):
        return context.default_return_type
    default = get_proper_type(context.default_return_type)
    if isinstance(default, CallableType):
        return context.default_return_type
    if isinstance(default, Instance) and default.type.fullname == names.ARRAY:
        call = context.context
        name = _shown(call.callee) if isinstance(call, CallExpr) else "this"
        report.unknown(
            context.api, call, f"`{name}` gives a plain `jax.Array`; annotated `Block[...]` it keeps its shape"
        )
    return answer.unknown(Types(context.api), default)


HOOKS: Hooks = Hooks(functions={"jax._src.pallas.primitives.program_id": _program_id})
