"""A kernel as a launch sees it: its positional refs, in order, and what the bounds of its type parameters promise."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Final

from mypy.nodes import ARG_OPT, ARG_POS, ARG_STAR, ArgKind, FuncDef
from mypy.types import CallableType, Instance, Type, get_proper_type

from typedpallas.dims import Facts
from typedpallas.events import RefFact
from typedpallas.records import record
from typedpallas_mypy.facts import Types
from typedpallas_mypy.seen import seen

NO_FACTS: Final = Facts()


@record(frozen=True)
class Parameter:
    """One ref of a kernel. ``direction`` of ``ref`` is none where the parameter has no ref's annotation."""

    ref: RefFact
    dtype_name: str | None = None
    """The type parameter that stands for the element type."""
    optional: bool = False


@record(frozen=True)
class Kernel:
    """A kernel's positional parameters. Sizes are over the names in ``multiples``, its own type parameters."""

    name: str
    parameters: tuple[Parameter, ...]
    variadic: bool
    """Whether it takes any number of further refs."""
    multiples: Mapping[str, int] = field(default_factory=dict)

    @functools.cached_property
    def facts(self) -> Facts:
        """What the bounds of its dims promise."""
        return Facts(multiples=self.multiples)

    @property
    def dims(self) -> tuple[str, ...]:
        """Its type parameters that are dims, in order of appearance."""
        return tuple(self.multiples)

    @property
    def annotated(self) -> bool:
        """Whether any parameter says what it is."""
        return any(p.ref.direction is not None for p in self.parameters)

    @functools.cached_property
    def required(self) -> tuple[Parameter, ...]:
        """The parameters without a default: those that a launch fills."""
        return tuple([p for p in self.parameters if not p.optional])

    def taking(self, count: int) -> tuple[Parameter, ...]:
        """The parameters that ``count`` refs would fill: required ones, and optional ones as far as needed."""
        return self.parameters[: max(count, len(self.required))]


def kernel_of(kind: Type) -> Kernel | None:
    """The kernel that a value of this type is, or none if it is no plain function (bound method, partial)."""
    function = function_of(kind)
    if function is None:
        return None
    kernels = seen(None).kernels
    known = kernels.get(id(function))
    if known is None or known[0] is not function:
        known = kernels[id(function)] = (function, _kernel(function))
    return known[1]


def _kernel(function: CallableType) -> Kernel:
    function = _as_defined(function)
    types = Types(None)
    parameters = tuple(_parameters(types, function))
    return Kernel(
        (function.name or "the kernel").partition(" of ")[0],
        parameters,
        ARG_STAR in function.arg_kinds,
        types.facts.multiples,
    )


def _as_defined(function: CallableType) -> CallableType:
    """The signature as the function's own body has it, where mypy only renewed its type parameters for a use.

    The body was checked before, so its annotations have been taken apart.
    """
    definition = function.definition
    if not isinstance(definition, FuncDef) or definition.info or not isinstance(definition.type, CallableType):
        return function
    own = definition.type
    same = own.arg_kinds == function.arg_kinds and own.arg_names == function.arg_names
    return own if same and own.name == function.name else function


def function_of(kind: Type) -> CallableType | None:
    """The signature of a function, bound method or partial; none for anything else."""
    kind = get_proper_type(kind)
    if isinstance(kind, Instance) and kind.extra_attrs is not None:
        partial = kind.extra_attrs.attrs.get("__mypy_partial")
        kind = get_proper_type(partial) if partial is not None else kind
    return kind if isinstance(kind, CallableType) else None


def _parameters(types: Types, function: CallableType) -> Iterator[Parameter]:
    arguments = zip(function.arg_kinds, function.arg_types, function.arg_names, strict=True)
    for position, (kind, annotation, name) in enumerate(arguments):
        if kind in (ARG_POS, ARG_OPT):
            yield _parameter(types, annotation, name or f"parameter {position}", kind)


def _parameter(types: Types, annotation: Type, name: str, kind: ArgKind) -> Parameter:
    optional = kind == ARG_OPT
    ref = types.ref(annotation, name)
    if ref is None:
        return Parameter(RefFact(name=name, space=None, dtype=None, shape=None), optional=optional)
    parameter = types.element_parameter(annotation)
    if ref.space is not None and not ref.space.data:
        ref = replace(ref, shape=None, dtype=None)
    return Parameter(ref, parameter.name if parameter is not None else None, optional)
