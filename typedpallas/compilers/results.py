"""What a compile gives: the compiled kernel's figures, or the reason why there is none."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

type Kind = Literal["refused", "crashed", "timeout", "unavailable"]
type Stage = Literal["trace", "lower", "compile"]

_REGISTERS = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes spill stores"), re.compile(r"(\d+) bytes spill loads")

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


def _most(pattern: re.Pattern[str], words: str) -> int | None:
    return max(map(int, pattern.findall(words)), default=None)


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

    @property
    def registers(self) -> int | None:
        """Registers of one thread; none where the assembler does not say."""
        return _most(_REGISTERS, self.assembler)

    @property
    def spilled(self) -> int | None:
        """Bytes of registers that one thread stores to memory and loads again; none where it does not say."""
        stores, loads = (_most(pattern, self.assembler) for pattern in _SPILLS)
        return None if stores is None or loads is None else max(stores, loads)

    @property
    def serialized(self) -> bool:
        """Whether the assembler put products of the matrix unit (`wgmma`) one behind the other."""
        return "wgmma.mma_async instructions are serialized" in self.assembler

    @property
    def warning(self) -> str:
        """What makes this kernel slow, as the assembler says; empty if nothing."""
        said = [f"spills registers, {self.spilled} bytes a thread"] * bool(self.spilled)
        said += ["has products that wait for each other (`wgmma` serialized)"] * self.serialized
        return f"`{self.name}` {' and '.join(said)}" if said else ""


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
