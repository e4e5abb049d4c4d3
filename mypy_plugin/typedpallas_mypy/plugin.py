"""The plugin: one look-up and one guarded call for each hook. The work is done in `handlers`."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from mypy.nodes import MypyFile
from mypy.options import Options
from mypy.plugin import Plugin, ReportConfigContext

from typedpallas_mypy import config, names, report, store, version
from typedpallas_mypy.guard import guarded
from typedpallas_mypy.handlers import (
    annotations,
    blocks,
    containers,
    copies,
    functions,
    launch,
    launch_calls,
    loop_branches,
    loops,
    pallas_call,
    portable,
    refs,
    signatures,
)
from typedpallas_mypy.hooks import Finder, Hook, Hooks, Table
from typedpallas_mypy.redefinition import settled

HANDLERS: tuple[Hooks, ...] = (
    annotations.HOOKS,
    launch.HOOKS,
    launch_calls.HOOKS,
    pallas_call.HOOKS,
    refs.HOOKS,
    copies.HOOKS,
    blocks.HOOKS,
    functions.HOOKS,
    loops.HOOKS,
    loop_branches.HOOKS,
    portable.HOOKS,
    containers.HOOKS,
    signatures.HOOKS,
)
"""Every construct that is handled; the first that knows a name has it."""

FUNCTIONS: tuple[Finder, ...] = (functions.function, functions.other)
SIGNATURES: tuple[Finder, ...] = (signatures.function,)
METHODS: tuple[Finder, ...] = (blocks.method, functions.method)
"""Whole families of names; asked, in order, for a name that no table has."""

_DEPENDENCY = 10
"""mypy's priority of an ordinary top-level import."""


def _as_is(hook: Hook) -> Hook:
    return hook


def _merged(tables: Iterable[Table], wrap: Callable[[Hook], Hook] = _as_is) -> dict[str, Hook]:
    merged: dict[str, Hook] = {}
    for table in tables:
        for name, hook in table.items():
            merged.setdefault(name, guarded(wrap(hook)))
    return merged


_TYPES = _merged(h.types for h in HANDLERS)
_FUNCTIONS = _merged((h.functions for h in HANDLERS), settled)
_FUNCTION_SIGNATURES = _merged(h.function_signatures for h in HANDLERS)
_METHODS = _merged((h.methods for h in HANDLERS), settled)
_METHOD_SIGNATURES = _merged(h.method_signatures for h in HANDLERS)
_ATTRIBUTES = _merged((h.attributes for h in HANDLERS), settled)


@functools.cache
def _found(finders: tuple[Finder, ...], fullname: str, wrap: Callable[[Hook], Hook] = _as_is) -> Hook | None:
    """The hook of a name of a family. mypy asks anew for every call."""
    for finder in finders:
        hook = finder(fullname)
        if hook is not None:
            return guarded(wrap(hook))
    return None


class TypedpallasPlugin(Plugin):
    """Routes mypy's hooks."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        config.read(options.config_file)
        store.use(options)
        report.codes()

    def report_config_data(self, ctx: ReportConfigContext) -> Any:
        """What a module's cached result depends on besides its source."""
        return version.cache_key(ctx.path)

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        """The hidden types are read before the public ones, wherever those are read."""
        return [(_DEPENDENCY, names.STATIC.rstrip("."), -1)] if file.fullname == names.REFS.rstrip(".") else []

    def get_type_analyze_hook(self, fullname: str) -> Hook | None:
        return _TYPES.get(fullname)

    def get_function_signature_hook(self, fullname: str) -> Hook | None:
        return _FUNCTION_SIGNATURES.get(fullname) or _found(SIGNATURES, fullname)

    def get_function_hook(self, fullname: str) -> Hook | None:
        return _FUNCTIONS.get(fullname) or _found(FUNCTIONS, fullname, settled)

    def get_method_signature_hook(self, fullname: str) -> Hook | None:
        return _METHOD_SIGNATURES.get(fullname) or _found(SIGNATURES, fullname)

    def get_method_hook(self, fullname: str) -> Hook | None:
        return _METHODS.get(fullname) or _found(METHODS, fullname, settled)

    def get_attribute_hook(self, fullname: str) -> Hook | None:
        return _ATTRIBUTES.get(fullname)


def plugin(version: str) -> type[Plugin]:
    """mypy's entry point."""
    return TypedpallasPlugin
