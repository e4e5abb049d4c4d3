"""A hook that fails must never stop mypy: what it was asked is then open, that is, left as mypy had it."""

import os
from collections.abc import Callable
from typing import Any, Final

from mypy.plugin import AnalyzeTypeContext, AttributeContext, FunctionSigContext, MethodSigContext
from mypy.types import AnyType, FunctionLike, Type, TypeOfAny

DEBUG: Final = "TYPEDPALLAS_MYPY_DEBUG"
"""The environment variable that makes failures visible: with it set, they are raised."""


def mode() -> str:
    """How failures are treated: ``raised`` or ``open``."""
    return "raised" if os.environ.get(DEBUG) else "open"


def default(context: Any) -> Type | FunctionLike:
    """What mypy would have used without the hook."""
    if isinstance(context, FunctionSigContext | MethodSigContext):
        return context.default_signature
    if isinstance(context, AttributeContext):
        return context.default_attr_type
    if isinstance(context, AnalyzeTypeContext):
        return AnyType(TypeOfAny.special_form)
    result: Type = context.default_return_type
    return result


def guarded(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``hook``, except that a failure inside gives mypy's own answer."""

    def run(context: Any) -> Any:
        try:
            return hook(context)
        except Exception:
            if mode() == "raised":
                raise
            return default(context)

    return run
