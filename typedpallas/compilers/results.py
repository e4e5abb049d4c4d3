"""What a compile gives: the compiled kernel's figures, or the reason why there is none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

type Kind = Literal["refused", "crashed", "timeout", "unavailable"]
type Stage = Literal["trace", "lower", "compile"]

_VERBS: dict[str, str] = {
    "refused": "refused",
    "crashed": "crashed the compiler",
    "timeout": "gave no verdict in time",
    "unavailable": "cannot be compiled for here",
}


class CompileError(Exception):
    """There is no compiled kernel.

    `kind`: ``refused`` by Pallas or the vendor's compiler, ``crashed`` (the compiler went down on it),
    ``timeout``, or ``unavailable`` (the compiler is not installed or does not start).
    `stage`: ``trace`` and ``lower`` are Pallas's own part, ``compile`` the vendor's compiler's.
    `reason`: the compiler's own words, first meaningful line; `detail`: all of them.
    `where`: the file and line of the user's source that the compiler names, where it names one.
    `cached`: whether the answer came from the cache.
    """

    def __init__(
        self,
        *,
        kind: Kind,
        target: str,
        reason: str,
        stage: Stage = "compile",
        detail: str = "",
        where: tuple[str, int] | None = None,
        cached: bool = False,
    ) -> None:
        super().__init__(f"{target}: {_VERBS[kind]} ({stage}): {reason}")
        self.kind = kind
        self.target = target
        self.reason = reason
        self.stage = stage
        self.detail = detail
        self.where = where
        self.cached = cached

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake, (vars(self),)


def _remake(fields: dict[str, Any]) -> CompileError:
    return CompileError(**fields)


@dataclass(frozen=True, kw_only=True)
class MemoryFigures:
    """What the compiled module takes, in bytes; the compiler's own figures."""

    code: int | None
    """Machine code; none where the compiler does not say."""
    arguments: int
    outputs: int
    temporaries: int
    aliased: int


@dataclass(frozen=True, kw_only=True)
class KernelCode:
    """A GPU kernel's PTX, and what the assembler said of its registers and spills where it says so."""

    name: str
    ptx: str = field(repr=False)
    assembler: str = field(default="", repr=False)


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A kernel that the vendor's compiler took."""

    target: str
    compiler: str
    """The compiler and its version: ``libtpu 0.0.48.1 (jaxlib 0.11.2)``."""
    memory: MemoryFigures
    module: str = field(repr=False)
    """The compiled module as text (HLO after optimisation)."""
    kernels: tuple[KernelCode, ...] = ()
    """GPU kernels, where the compiler gives their PTX."""
    costs: Mapping[str, float] = field(default_factory=dict, repr=False)
    """XLA's cost analysis of the module: ``flops``, ``bytes accessed`` and others. Of a kernel XLA knows its operands
    and its `cost_estimate`. Empty where the compiler gives none, and in verdicts kept from before this field."""
    notes: tuple[str, ...] = ()
    """What a reader should know about this verdict, such as a card compiled under another's name."""
    seconds: float
    """How long the compiler took when it was asked."""
    cached: bool = False
    """Whether the answer came from the cache."""
