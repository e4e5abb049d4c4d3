"""A pattern held against a kernel's annotations: the events that this makes, and the sizes that it settles.

Nothing here knows mypy. Sizes are over the kernel's own type parameters. The launch itself does the same at run
time with numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from typedpallas.dims import Size
from typedpallas.events import Argument, GridAxis, Operands
from typedpallas.pattern import Operand, Pattern, Step, Whole
from typedpallas.records import record
from typedpallas_mypy.handlers.calls_kernel import Kernel, Parameter

type Origin = tuple[Size, str]
"""A size and where it comes from, for messages."""


@record(frozen=True)
class Slot:
    """One operand of the pattern with the parameter that gets it."""

    operand: Operand
    parameter: Parameter
    role: Literal["in", "out"]
    placed: bool = False
    """Whether it has an index map of its own (`tp.spec`): then its array says nothing of the grid."""

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self.parameter.ref.name


@record(frozen=True)
class Match:
    """A kernel and its pattern, slot by slot; an `InOut` parameter has two."""

    pattern: Pattern
    kernel: Kernel
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]

    @functools.cached_property
    def meanings(self) -> Mapping[str, Size]:
        """Names that only the pattern has and the annotations give a size: a number, or arithmetic on dims."""
        found: dict[str, Size] = {}
        for slot in self.inputs + self.outputs:
            shape, windows = slot.parameter.ref.shape, slot.operand.windows
            if shape is None or len(shape) != len(windows):
                continue
            for (name, _), size in zip(windows, shape, strict=True):
                if isinstance(name, str) and size is not None and self._defines(name, size):
                    found.setdefault(name, size)
        return found

    def _defines(self, name: str, size: Size) -> bool:
        own = name in self.kernel.multiples
        return size.const is not None or (not own and not any(size == Size.of(dim) for dim in size.names))

    @property
    def names(self) -> tuple[str, ...]:
        """Every size that a call may name, grid axes apart."""
        return tuple(dict.fromkeys([*self.pattern.blocks, *self.pattern.dims, *self.kernel.dims]))


def _taking(kernel: Kernel, *directions: str) -> list[Parameter]:
    return [p for p in kernel.required if p.ref.direction in directions]


def launchable(kernel: Kernel) -> bool:
    """Whether every parameter says its part in a launch; otherwise nothing is known of how operands bind."""
    directions = ("in", "out", "inout", "scratch")
    return not kernel.variadic and all(p.ref.direction in directions for p in kernel.required)


def operands(pattern: Pattern, kernel: Kernel) -> Operands:
    """How many refs the pattern gives, beside the parameters that take them; an `InOut` counts as an input."""
    return Operands(
        kernel=kernel.name,
        parameters=tuple((p.ref.name, p.ref.direction) for p in kernel.required),
        inputs=len(pattern.inputs),
        outputs=len(pattern.outputs) - len(_taking(kernel, "inout")),
        scratch=len(_taking(kernel, "scratch")),
    )


def match(pattern: Pattern, kernel: Kernel, placed: frozenset[int] = frozenset()) -> Match:
    """Pair operands and parameters, in order; ``placed`` are the positions of operands with their own index map."""
    count = len(pattern.inputs)
    reads = zip(pattern.inputs, _taking(kernel, "in", "inout"), strict=False)
    writes = zip(pattern.outputs, _taking(kernel, "out", "inout"), strict=False)
    inputs = tuple(Slot(operand, p, "in", i in placed) for i, (operand, p) in enumerate(reads))
    outputs = tuple(Slot(operand, p, "out", count + i in placed) for i, (operand, p) in enumerate(writes))
    return Match(pattern, kernel, inputs, outputs)


def arguments(found: Match) -> Iterator[tuple[int, Argument]]:
    """What each parameter gets, beside its annotation; with the operand's position in the pattern."""
    for position, slot in enumerate(found.inputs + found.outputs):
        ref = slot.parameter.ref
        yield (
            position,
            Argument(
                kernel=found.kernel.name,
                ref=ref,
                source=f"`{slot.operand}` of the pattern",
                block=tuple(Size.of(part).substitute(found.meanings) for part, _ in slot.operand.windows),
                windowed=slot.placed or any(not isinstance(part, Whole) for part in slot.operand.parts),
            ),
        )


def grid_axes(found: Match, parallel: Iterable[str]) -> Iterator[GridAxis]:
    """One event for each grid axis and output, except outputs whose place is not in the pattern."""
    declared, grid = frozenset(parallel), found.pattern.grid
    for slot in found.outputs:
        if slot.placed:
            continue
        axes = slot.operand.axes
        for position, axis in enumerate(grid):
            yield GridAxis(
                axis=axis,
                output=slot.name,
                in_output=axis in axes,
                declared_parallel=axis in declared,
                trailing=all(later not in axes for later in grid[position + 1 :]),
            )


def window_names(operand: Operand) -> tuple[str | int | None, ...]:
    """The block of each part by its name or number; none where it is squeezed."""
    return tuple(
        None if isinstance(part, Step) else part.dim if isinstance(part, Whole) else part.block
        for part in operand.parts
    )
