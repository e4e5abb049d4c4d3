"""The plugin: one look-up and one guarded call for each hook. The work is done in `handlers`."""

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
    gpu_buffers,
    gpu_units,
    launch,
    launch_calls,
    loop_branches,
    loops,
    pallas_call,
    portable,
    refs,
    scoped,
    signatures,
)
from typedpallas_mypy.hooks import Finder, Hook, Hooks, Table
from typedpallas_mypy.redefinition import settled
from typedpallas_mypy.returned import judged

HANDLERS: tuple[Hooks, ...] = (
    annotations.HOOKS,
    launch.HOOKS,
    launch_calls.HOOKS,
    pallas_call.HOOKS,
    refs.HOOKS,
    copies.HOOKS,
    gpu_units.HOOKS,
    gpu_buffers.HOOKS,
    scoped.HOOKS,
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


class _Found(dict[str, Hook | None]):
    """The hook of every name that mypy asked for, and it asks anew for every call: a table's, or a family's."""

    def __init__(
        self, table: dict[str, Hook], finders: tuple[Finder, ...], wrap: Callable[[Hook], Hook] = _as_is
    ) -> None:
        super().__init__(table)
        self.finders = finders
        self.wrap = wrap

    def __missing__(self, fullname: str) -> Hook | None:
        hook = next(filter(None, (finder(fullname) for finder in self.finders)), None)
        self[fullname] = None if hook is None else guarded(self.wrap(hook))
        return self[fullname]


def _held(hook: Hook) -> Hook:
    """``hook``, whose result is held against what it is assigned to or given back as."""
    return judged(settled(hook))


_TYPES = _merged(h.types for h in HANDLERS)
_FUNCTIONS = _Found(_merged((h.functions for h in HANDLERS), _held), FUNCTIONS, _held)
_FUNCTION_SIGNATURES = _Found(_merged(h.function_signatures for h in HANDLERS), SIGNATURES)
_METHODS = _Found(_merged((h.methods for h in HANDLERS), _held), METHODS, _held)
_METHOD_SIGNATURES = _Found(_merged(h.method_signatures for h in HANDLERS), SIGNATURES)
_ATTRIBUTES = _merged((h.attributes for h in HANDLERS), _held)


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
        return _FUNCTION_SIGNATURES[fullname]

    def get_function_hook(self, fullname: str) -> Hook | None:
        return _FUNCTIONS[fullname]

    def get_method_signature_hook(self, fullname: str) -> Hook | None:
        return _METHOD_SIGNATURES[fullname]

    def get_method_hook(self, fullname: str) -> Hook | None:
        return _METHODS[fullname]

    def get_attribute_hook(self, fullname: str) -> Hook | None:
        return _ATTRIBUTES.get(fullname)


def plugin(version: str) -> type[Plugin]:
    """mypy's entry point."""
    return TypedpallasPlugin
