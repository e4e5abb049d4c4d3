"""What a kernel's own annotations say, found from the place that JAX keeps of its function."""

import ast
import functools
import linecache
import sys
from collections.abc import Callable
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.types import AnnotationError, Direction, KernelType, kernel_type

_REMEMBERED: dict[tuple[str, int], KernelType | None] = {}


def remember(kernel: Callable[..., Any]) -> None:
    """Make a kernel's annotations known to `directions`: for functions that no module holds by name."""
    code = _code(kernel)
    if code is not None:
        _REMEMBERED[code.co_filename, code.co_firstlineno] = _read(kernel)


def directions(source: str | None) -> dict[str, Direction]:
    """The direction of each annotated parameter of the function at ``source`` (``"name at file:line"``)."""
    place = jaxapi.place_of_function(source)
    kind = _at(place.file, place.line) if place.file else None
    if kind is None:
        return {}
    return {p.name: p.type.direction for p in kind.parameters if p.type is not None}


def parameters(source: str | None) -> tuple[str, ...]:
    """The positional parameters' names of the function at ``source``, as its file has them; none where unknown."""
    place = jaxapi.place_of_function(source)
    found = _functions(place.file).get(place.line) if place.file else None
    return found or ()


@functools.lru_cache(maxsize=64)
def _functions(file: str) -> dict[int, tuple[str, ...]]:
    """The positional parameters of every function of a file, by its first line."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            decorators = getattr(node, "decorator_list", [])
            line = min([node.lineno, *(d.lineno for d in decorators)])
            found[line] = tuple(arg.arg for arg in (*node.args.posonlyargs, *node.args.args))
    return found


def _at(file: str, line: int) -> KernelType | None:
    if (file, line) not in _REMEMBERED:
        function = _in_modules(file, line)
        if function is None:
            return None
        _REMEMBERED[file, line] = _read(function)
    return _REMEMBERED[file, line]


def _in_modules(file: str, line: int) -> Callable[..., Any] | None:
    """The function of this place, if a loaded module holds it by some name."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == file:
            for value in vars(module).values():
                code = _code(value)
                if code is not None and code.co_firstlineno == line and code.co_filename == file:
                    return value  # type: ignore[no-any-return]
    return None


def _code(value: Any) -> Any:
    while isinstance(value, functools.partial):
        value = value.func
    return getattr(value, "__code__", None)


def _read(function: Callable[..., Any]) -> KernelType | None:
    try:
        return kernel_type(function)
    except (AnnotationError, TypeError, NameError):
        return None
