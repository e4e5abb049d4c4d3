"""Blocks given to annotated parameters: what each type parameter gets, and what that contradicts.

Nothing here knows mypy. The kernel's dims are replaced by sizes in the caller's terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from typedpallas.dims import Size
from typedpallas.events import Argument, DimSize, Event
from typedpallas.records import record
from typedpallas_mypy.handlers.calls_kernel import Kernel, Parameter
from typedpallas_mypy.handlers.calls_match import Origin


@record(frozen=True)
class Given:
    """What one parameter gets. ``source`` names it for messages; sizes of none are unknown."""

    parameter: Parameter
    block: tuple[Size | None, ...]
    source: str


@dataclass
class Binder:
    """The dims of a kernel as the blocks fix them."""

    kernel: Kernel
    sizes: dict[str, Origin] = field(default_factory=dict)

    def bind(self, all_given: Sequence[Given]) -> Iterator[tuple[int, Event, str]]:
        """Every event with the position of what was given and the part of it: ``block[1]`` or all of it.

        Dims that stand alone are read first: they give arithmetic on dims its sizes.
        """
        for position, given in enumerate(all_given):
            if self._fits(given):
                yield from self._alone(position, given)
        for position, given in enumerate(all_given):
            yield position, self._argument(given), ""

    def _fits(self, given: Given) -> bool:
        shape = given.parameter.ref.shape
        return shape is not None and len(shape) == len(given.block)

    def _alone(self, position: int, given: Given) -> Iterator[tuple[int, Event, str]]:
        for axis, (annotated, size) in enumerate(zip(given.parameter.ref.shape or (), given.block, strict=True)):
            name = None if annotated is None else name_alone(annotated)
            if name is None or size is None:
                continue
            origin = f"axis {axis} of {given.source} of `{given.parameter.ref.name}`"
            multiple = self.kernel.facts.multiple(name)
            yield position, DimSize(dim=name, size=size, origin=origin, multiple=multiple), f"block[{axis}]"
            earlier = self.sizes.setdefault(name, (size, origin))
            if earlier[1] != origin:
                event = DimSize(dim=name, size=size, origin=origin, earlier=earlier)
                yield position, event, f"block[{axis}]"

    def _argument(self, given: Given) -> Argument:
        """The block beside the annotation, dims that stand alone left out: those are judged by their sizes."""
        shape, block = given.parameter.ref.shape, list(given.block)
        if shape is not None and self._fits(given):
            block = [
                None if a is None or name_alone(a) is not None or not a.names <= self.sizes.keys() else size
                for a, size in zip(shape, block, strict=True)
            ]
        return Argument(
            kernel=self.kernel.name,
            ref=given.parameter.ref,
            source="",
            block=tuple(block),
            sizes={name: size for name, (size, _) in self.sizes.items()},
            origins={name: origin for name, (_, origin) in self.sizes.items()},
        )


def name_alone(size: Size) -> str | None:
    """The name that a size is, if it is nothing else."""
    name = next(iter(size.names), None)
    return name if name is not None and size == Size.of(name) else None
