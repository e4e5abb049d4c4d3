"""Lists and dicts of blocks: what is put in later need not have the shape of what was there first.

mypy takes the type of a list from the first thing that is put in, and lists are invariant. In the running program
all blocks are `jax.Array`, so a list of several shapes is right; it becomes a list of blocks of unknown shape.
"""

from __future__ import annotations

from typing import Any

from mypy.nodes import Context, Expression, NameExpr, Var
from mypy.plugin import MethodSigContext
from mypy.types import CallableType, Instance, Type, get_proper_type

from typedpallas_mypy import answer, names, scope
from typedpallas_mypy.facts import Types
from typedpallas_mypy.hooks import Hooks


def _put(context: MethodSigContext) -> CallableType:
    """Widen the container if what is put in has another shape."""
    signature, holder = context.default_signature, get_proper_type(context.type)
    assert isinstance(signature, CallableType)
    if not context.args or not context.args[-1] or not isinstance(holder, Instance) or not holder.args:
        return signature
    held = get_proper_type(holder.args[-1])
    if not _is_block(held) or not scope.concerned(context.api):
        return signature
    given = get_proper_type(context.api.get_expression_type(context.args[-1][0]))
    if not isinstance(given, Instance) or not given.type.has_base(names.ARRAY) or given == held:
        return signature
    types = Types(context.api)
    if not _widened(context.api, _receiver(context.context), holder, types):
        return signature
    wider = [*signature.arg_types[:-1], answer.unknown(types, held, anew=True)]
    if not _is_block(given):
        wider[-1] = given
    return signature.copy_modified(arg_types=wider)


def _receiver(place: Context) -> Expression | None:
    callee: Any = getattr(place, "callee", None)
    return getattr(callee, "expr", None) or getattr(place, "base", None)


def _widened(api: Any, receiver: Expression | None, holder: Instance, types: Types) -> bool:
    """Make the container one of unknown shapes from here on; whether that could be done.

    A variable whose type the user wrote stays what it is. What is no variable is not seen again.
    """
    variable = receiver.node if isinstance(receiver, NameExpr) else None
    if not isinstance(variable, Var):
        return not isinstance(receiver, NameExpr)
    if not variable.is_inferred:
        return False
    wide = holder.copy_modified(args=[*holder.args[:-1], answer.unknown(types, holder.args[-1], anew=True)])
    variable.type = wide
    api.binder.put(receiver, wide)
    return True


def _is_block(kind: Type) -> bool:
    kind = get_proper_type(kind)
    return isinstance(kind, Instance) and kind.type.fullname == names.BLOCK


_METHODS = ("list.append", "list.insert", "list.__setitem__", "dict.__setitem__", "dict.setdefault", "set.add")

HOOKS: Hooks = Hooks(method_signatures={f"builtins.{name}": _put for name in _METHODS})
