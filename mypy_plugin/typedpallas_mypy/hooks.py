"""What a handler file offers: its hooks by the names mypy asks for."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from typedpallas.records import record

type Hook = Callable[[Any], Any]
type Table = Mapping[str, Hook]
type Finder = Callable[[str], Hook | None]
"""The hook for a name of a whole family, or none."""


@record(frozen=True, kw_only=True)
class Hooks:
    """The hooks of one construct, by mypy's full name of what is called, read or annotated."""

    types: Table = field(default_factory=dict)
    """Annotations (`AnalyzeTypeContext`)."""
    functions: Table = field(default_factory=dict)
    """Calls of functions and classes, by the name of the callee (`FunctionContext`)."""
    function_signatures: Table = field(default_factory=dict)
    """The same, before the arguments are checked (`FunctionSigContext`)."""
    methods: Table = field(default_factory=dict)
    """Calls of methods and operators, by the receiver's class (`MethodContext`)."""
    method_signatures: Table = field(default_factory=dict)
    """The same, before the arguments are checked (`MethodSigContext`)."""
    attributes: Table = field(default_factory=dict)
    """Attributes, by the class that defines them (`AttributeContext`)."""
