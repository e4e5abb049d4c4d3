"""`tp.typed`: a helper's `Ref`, `Block` and `Array` annotations, checked each time it is traced.

beartype checks the rest of the signature where it is installed.
"""

import functools
import importlib
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, TypeAliasType, TypeVar, get_args, get_origin

from typedpallas import dim_types
from typedpallas.annotations import AnnotationError, name_of, resolved
from typedpallas.types import BlockType, RefType, require_subscript
from typedpallas.unify import Call, SignatureError

__all__ = ["SignatureError", "typed"]


def typed[F: Callable[..., Any]](function: F) -> F:
    """Check calls of ``function`` against its annotations: spaces, element types, ranks, dims and their bounds.

    A dim is the same number everywhere in one call, the return value included. Nothing is added to what is traced.

    Raises:
        AnnotationError: an annotation means nothing; raised here, or at the first call if it names what comes later.
        SignatureError: an argument or the return value does not fit; raised by the call.
    """
    if isinstance(function, staticmethod | classmethod):
        return typing.cast("F", type(function)(typed(function.__func__)))
    checked: list[_Checked] = []
    try:
        checked.append(_Checked(function))
    except AnnotationError as error:
        if not isinstance(error.__cause__, NameError):
            raise

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not checked:
            checked.append(_Checked(function))
        return checked[0](args, kwargs)

    return typing.cast("F", wrapper)


class _Checked:
    """A function with its annotations read."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = name_of(function)
        self.hints = resolved(function)
        self.signature = inspect.signature(function)
        for parameter, hint in self.hints.items():
            require_subscript(hint, parameter)
        own = {p for hint in self.hints.values() for part in _own_parts(hint) for p in part.parameters}
        self.dims = frozenset(p for p in own if dim_types.family(p) is None)
        for dim in self.dims:
            dim_types.multiple_of(dim)  # a bound that means nothing is an error here, not at a call
        self.mine = {name: hint for name, hint in self.hints.items() if _own_parts(hint) or hint in self.dims}
        self.run = _with_beartype(function, {name: _foreign(hint, own) for name, hint in self.hints.items()})

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = self.signature.bind(*args, **kwargs)
        call = Call(self.name)
        for name, value in bound.arguments.items():
            if name not in self.mine:
                continue
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                for i, item in enumerate(value):
                    call.check(self.mine[name], item, f"{name}[{i}]")
            elif kind is inspect.Parameter.VAR_KEYWORD:
                for key, item in value.items():
                    call.check(self.mine[name], item, key)
            else:
                call.check(self.mine[name], value, name)
        call.settle()
        result = self.run(*args, **kwargs)
        if "return" in self.mine:
            call.check(self.mine["return"], result, "return")
            call.settle()
        return result


def _own_parts(hint: Any) -> list[RefType | BlockType]:
    """The `Ref` and `Block` types in an annotation."""
    if isinstance(hint, RefType | BlockType):
        return [hint]
    return [part for argument in get_args(hint) for part in _own_parts(argument)]


def _foreign(hint: Any, own: set[TypeVar]) -> Any:
    """The annotation as another checker may read it: what is checked here becomes `Any`."""
    if _own_parts(hint) or (isinstance(hint, TypeVar) and hint in own):
        return Any
    alias = get_origin(hint)
    if isinstance(alias, TypeAliasType):
        return int if alias is dim_types.Multiple else Any
    return hint


def _with_beartype(function: Callable[..., Any], hints: dict[str, Any]) -> Callable[..., Any]:
    """The function with beartype's checks of ``hints``; itself where there is nothing to check, or no beartype."""
    if not isinstance(function, types.FunctionType) or all(hint is Any for hint in hints.values()):
        return function
    try:
        beartype = importlib.import_module("beartype")
    except ImportError:
        return function
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    functools.update_wrapper(copy, function)
    del copy.__wrapped__  # type: ignore[attr-defined]
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = hints
    return typing.cast("Callable[..., Any]", beartype.beartype(copy))
