"""The annotations of a callable, evaluated: strings, type parameters, partials, methods and callable objects."""

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any


class AnnotationError(TypeError):
    """An annotation that means nothing: the message names the part and what was expected there."""


def underlying(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The function that is run in the end: partials, decorators and methods looked through."""
    function: Any = kernel
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not (inspect.isroutine(function) or inspect.isclass(function)):
        function = inspect.unwrap(type(function).__call__)
    return typing.cast("Callable[..., Any]", getattr(function, "__func__", function))


def resolved(kernel: Callable[..., Any]) -> dict[str, Any]:
    """The annotations by parameter, ``return`` included; strings are evaluated where the function was written.

    Raises:
        AnnotationError: a name in a string means nothing there.
    """
    function = underlying(kernel)
    try:
        return typing.get_type_hints(function, localns=_names(kernel, function), include_extras=True)
    except NameError as error:
        raise AnnotationError(
            f"an annotation of `{name_of(kernel)}` says `{error.name}`, which means nothing in its module: "
            "define it there, or leave out `from __future__ import annotations` and the quotes"
        ) from error


def name_of(kernel: Callable[..., Any]) -> str:
    """How messages call it."""
    function = underlying(kernel)
    if function.__name__ == "__call__" and not inspect.isroutine(kernel):
        return type(kernel).__name__
    return function.__name__


def _names(kernel: Callable[..., Any], function: Any) -> dict[str, Any]:
    """What a string may mention beside globals: cells of the closure, type parameters of function and class."""
    closed = {}
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            closed[variable] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    while isinstance(kernel, functools.partial):
        kernel = kernel.func
    owner = type(getattr(kernel, "__self__", kernel))
    parameters = [*_type_parameters(owner), *_type_parameters(function)]
    return closed | {p.__name__: p for p in parameters}


def _type_parameters(generic: Any) -> tuple[Any, ...]:
    """The PEP 695 parameters of a function or class; the class of functions has a descriptor under that name."""
    found = getattr(generic, "__type_params__", ())
    return found if isinstance(found, tuple) else ()
