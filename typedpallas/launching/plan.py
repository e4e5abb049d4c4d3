"""A launch with every size known: what the backends turn into Pallas. Sizes in elements, grid in steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from typedpallas.launching.signature import Signature, Slot
from typedpallas.spaces import MemorySpace


@dataclass(frozen=True)
class Piece:
    """One dim of an operand. ``axis`` is the grid axis along which it is cut, or none; a step has no block."""

    axis: str | None
    block: int | None
    """Elements in one block; none where the dim is squeezed away."""


@dataclass(frozen=True)
class Planned:
    """One operand: its whole array and how it is cut."""

    slot: Slot
    array: tuple[int, ...]
    dtype: Any
    pieces: tuple[Piece, ...]

    @property
    def name(self) -> str:
        """The kernel parameter's name."""
        return self.slot.name

    @property
    def space(self) -> type[MemorySpace]:
        """Where the kernel wants it."""
        return self.slot.ref.space

    @property
    def block(self) -> tuple[int, ...]:
        """The shape that the kernel sees."""
        return tuple(piece.block for piece in self.pieces if piece.block is not None)

    @property
    def axes(self) -> frozenset[str]:
        """The grid axes on which its block depends; all of them are possible where it has its own index map."""
        return frozenset(piece.axis for piece in self.pieces if piece.axis is not None)


@dataclass(frozen=True)
class PlannedScratch:
    """One scratch buffer; ``dtype`` is none for semaphores and barriers."""

    name: str
    space: type[MemorySpace]
    dtype: Any
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """Everything that a backend needs."""

    signature: Signature
    grid: Mapping[str, int]
    """Steps of each grid axis, in grid order."""
    parallel: tuple[str, ...]
    """The grid axes whose steps are independent of each other."""
    sizes: Mapping[str, int]
    """Every dim and block size by name."""
    inputs: tuple[Planned, ...]
    outputs: tuple[Planned, ...]
    scratch: tuple[PlannedScratch, ...]

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.signature.kernel.name

    @property
    def items(self) -> tuple[Planned | PlannedScratch, ...]:
        """Everything that has a space."""
        return (*self.inputs, *self.outputs, *self.scratch)

    @property
    def sequential(self) -> tuple[str, ...]:
        """The grid axes whose steps run in order, for each block of the others."""
        return tuple(axis for axis in self.grid if axis not in self.parallel)

    def by_parameter(self, inputs: Any, outputs: Any, scratch: Any) -> list[Any]:
        """Three sequences put in the order of the kernel's parameters; an `InOut` gets the output's."""
        found = dict(zip((planned.name for planned in self.inputs), inputs, strict=True))
        found |= zip((planned.name for planned in self.outputs), outputs, strict=True)
        found |= zip((planned.name for planned in self.scratch), scratch, strict=True)
        return [found[parameter.name] for parameter in self.signature.kernel.parameters]
