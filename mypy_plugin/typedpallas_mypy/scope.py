"""Where the plugin has a say: in the user's own files, inside functions whose signature speaks of typedpallas.

Code without such annotations is checked exactly as without the plugin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mypy.nodes import FuncItem
from mypy.types import CallableType, Instance, TupleType, Type, TypeVarType, UnionType, UnpackType, get_proper_type

from typedpallas_mypy import names, version

_KEPT = 4096
_STATIC_MODULE = names.STATIC.rstrip(".")
_SPEAKS: dict[int, tuple[Type, bool]] = {}
_TAKES: dict[int, tuple[Type, bool]] = {}


def concerned(api: Any) -> bool:
    """Whether this file may hold kernels at all: it is no installed package's, and typedpallas was read."""
    return _STATIC_MODULE in api.modules and not version.is_library(api.path)


def typed(api: Any) -> bool:
    """Whether the code at hand is inside a function whose signature speaks of typedpallas."""
    if not concerned(api):
        return False
    functions = [item for item in api.scope.stack if isinstance(item, FuncItem)]
    return any(_signature_speaks(function.type) for function in functions)


def _signature_speaks(signature: Type | None) -> bool:
    if not isinstance(signature, CallableType):
        return False
    known = _SPEAKS.get(id(signature))
    if known is None or known[0] is not signature:
        if len(_SPEAKS) >= _KEPT:
            _SPEAKS.clear()
        known = (signature, any(speaks(kind) for kind in (*signature.arg_types, signature.ret_type)))
        _SPEAKS[id(signature)] = known
    return known[1]


def takes(signature: CallableType) -> bool:
    """Whether one of the parameters speaks of typedpallas.

    mypy renews the type parameters of a generic function for every use, so a plain function is known by its
    definition.
    """
    definition = signature.definition
    own = definition.type if isinstance(definition, FuncItem) and not definition.info else None
    same = isinstance(own, CallableType) and len(own.arg_types) == len(signature.arg_types)
    key = own if own is not None and same else signature
    known = _TAKES.get(id(key))
    if known is None or known[0] is not key:
        if len(_TAKES) >= _KEPT:
            _TAKES.clear()
        known = _TAKES[id(key)] = (key, any([speaks(kind) for kind in signature.arg_types]))
    return known[1]


def _any_speaks(kinds: Iterable[Type], depth: int) -> bool:
    """Whether one of the types does; a loop, because mypy has unions of a dozen items for what JAX takes."""
    for kind in kinds:  # noqa: SIM110
        if speaks(kind, depth):
            return True
    return False


def speaks(kind: Type, depth: int = 5) -> bool:
    """Whether a type holds one of the plugin's nominal types."""
    kind = get_proper_type(kind)
    if depth == 0:
        return False
    if isinstance(kind, Instance):
        return kind.type.fullname.startswith(names.STATIC) or (bool(kind.args) and _any_speaks(kind.args, depth - 1))
    if isinstance(kind, TupleType | UnionType):
        return _any_speaks(kind.items, depth - 1)
    if isinstance(kind, UnpackType):
        return speaks(kind.type, depth - 1)
    if isinstance(kind, TypeVarType):
        return speaks(kind.upper_bound, depth - 1)
    return False
