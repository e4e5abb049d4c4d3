"""A pattern held against a kernel's annotations: the events that this makes, and the sizes that it settles.

Nothing here knows mypy. Sizes are over the kernel's own type parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from typedpallas.dims import Size
from typedpallas.events import Argument, DimSize, Event, GridAxis, Operands
from typedpallas.pattern import Operand, Pattern
from typedpallas_mypy.handlers.calls_kernel import Kernel, Parameter

type Origin = tuple[Size, str]
"""A size and where it comes from, for messages."""
type Role = Literal["in", "out"]


@dataclass(frozen=True)
class Bound:
    """One operand of the pattern with the parameter that gets it."""

    operand: Operand
    parameter: Parameter
    role: Role


@dataclass
class Match:
    """What a pattern and a kernel settle together."""

    pattern: Pattern
    kernel: Kernel
    bound: tuple[Bound, ...] = ()
    sizes: dict[str, Origin] = field(default_factory=dict)
    """Names of the pattern that the kernel defines, and type parameters of the kernel that the pattern fixes."""
    events: list[Event] = field(default_factory=list)

    def meaning(self, name: str) -> Size | None:
        """The size that a name of the pattern stands for, over the kernel's type parameters."""
        if name in self.sizes:
            return self.sizes[name][0]
        return Size.of(name) if name in self.kernel.multiples else None


def operands(pattern: Pattern, kernel: Kernel, *, fewest_scratch: bool = True) -> Operands:
    """How many refs the pattern gives, beside the parameters that take them."""
    count = len(pattern.inputs) + len(pattern.outputs)
    taken = kernel.parameters if fewest_scratch else kernel.taking(count)
    return Operands(
        kernel=kernel.name,
        parameters=tuple((p.ref.name, p.ref.direction) for p in taken),
        inputs=len(pattern.inputs),
        outputs=len(pattern.outputs),
        source="the pattern",
    )


def match(pattern: Pattern, kernel: Kernel) -> Match:
    """Hold each operand's windows against the annotation of the parameter that gets it."""
    roles: list[tuple[Operand, Role]] = [(o, "in") for o in pattern.inputs]
    roles += [(o, "out") for o in pattern.outputs]
    found = Match(pattern, kernel)
    found.bound = tuple(
        Bound(operand, parameter, role) for (operand, role), parameter in zip(roles, kernel.parameters, strict=False)
    )
    for bound in found.bound:
        found.events.append(_argument(found, bound))
    return found


def _argument(found: Match, bound: Bound) -> Argument:
    ref, windows = bound.parameter.ref, bound.operand.windows
    block: list[Size | None] = []
    fits = ref.shape is not None and len(ref.shape) == len(windows)
    for i, (part, _) in enumerate(windows):
        annotated = ref.shape[i] if fits and ref.shape is not None else None
        block.append(_unified(found, bound, annotated, part))
    settled = {name: size for name, (size, _) in found.sizes.items()}
    shape = None if ref.shape is None else tuple(None if s is None else s.substitute(settled) for s in ref.shape)
    return Argument(
        kernel=found.kernel.name,
        ref=replace(ref, shape=shape),
        source=f"`{bound.operand}` of the pattern",
        block=tuple(block),
        windowed=bool(bound.operand.axes),
        origins={name: origin for name, (_, origin) in found.sizes.items()},
    )


def _unified(found: Match, bound: Bound, annotated: Size | None, part: str | int) -> Size | None:
    """The size of one window; a name that neither side knew is defined, a free dim is fixed."""
    if isinstance(part, str):
        meaning = found.meaning(part)
        if meaning is None and annotated is not None:
            found.sizes[part] = (annotated, f"`{annotated}` in the annotation of `{bound.parameter.ref.name}`")
            return annotated
        return meaning
    given = Size.of(part)
    if annotated is None:
        return given
    fixed = linear(annotated.substitute({name: size for name, (size, _) in found.sizes.items()}), given)
    if fixed is not None:
        name, size = fixed
        origin = f"from `{part}` in the pattern's `{bound.operand}`"
        found.events.append(DimSize(dim=name, size=size, origin=origin, multiple=found.kernel.facts.multiple(name)))
        found.sizes[name] = (size, origin)
        return given
    name_only = single_name(annotated)
    if name_only is not None and name_only in found.sizes:
        earlier = found.sizes[name_only]
        origin = f"from `{part}` in the pattern's `{bound.operand}`"
        found.events.append(DimSize(dim=name_only, size=given, origin=origin, earlier=earlier))
        return earlier[0]
    return given


def single_name(size: Size) -> str | None:
    """The name that a size is, if it is nothing else."""
    names = size.names
    name = next(iter(names)) if len(names) == 1 else None
    return name if name is not None and size == Size.of(name) else None


def linear(expected: Size, given: Size) -> tuple[str, Size] | None:
    """The name and its size for which ``expected`` is ``given``, where a multiple of one name is expected."""
    if len(expected.names) != 1 or len(expected.terms) != 1:
        return None
    (name,) = expected.names
    ((monomial, count),) = expected.terms
    size = given.exactly_over(count) if monomial == (name,) else None
    return None if size is None else (name, size)


def grid_axes(found: Match, parallel: Iterable[str]) -> Iterator[GridAxis]:
    """One event for each grid axis and output."""
    declared, grid = frozenset(parallel), found.pattern.grid
    for bound in found.bound:
        if bound.role == "in":
            continue
        axes = bound.operand.axes
        for position, axis in enumerate(grid):
            yield GridAxis(
                axis=axis,
                output=bound.parameter.ref.name,
                in_output=axis in axes,
                declared_parallel=axis in declared,
                trailing=all(later not in axes for later in grid[position + 1 :]),
            )
