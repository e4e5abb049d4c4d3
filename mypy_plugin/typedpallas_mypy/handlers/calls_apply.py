"""A call of a launch: arrays and sizes put into the pattern. Nothing here knows mypy.

Sizes are over the caller's own type parameters; every name of the launch is replaced by what the call gives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from typedpallas.dims import Size
from typedpallas.events import Argument, CallSizes, DimSize, Event, Operands, RefFact, Shape, Window
from typedpallas.pattern import Cut, Step, Whole
from typedpallas_mypy.handlers.calls_match import Bound, Match, Origin, linear


@dataclass(frozen=True)
class Settled:
    """What a launch was told in advance. A size of none is given but not known."""

    sizes: Mapping[str, Size | None] = field(default_factory=dict)
    ragged: frozenset[str] | None = frozenset()
    """The block sizes whose last block may be partial; none if not known."""


@dataclass(frozen=True)
class Given[Element]:
    """An array of a call: shape in elements, and its element type, none where unknown."""

    shape: Shape | None
    dtype: Element | None


type Said = tuple[Event, str]
"""An event and the part of the call that it is about: ``size[BM]``, ``array[0]`` or the whole call."""


@dataclass
class Call:
    """One call as it is put together; ``said`` collects the events."""

    match: Match
    settled: Settled
    name: str
    sizes: dict[str, Origin | None] = field(default_factory=dict)
    arrays: dict[tuple[str, str | int], Origin] = field(default_factory=dict)
    """The size of the array dim that a cut, (grid axis, block), runs over."""
    extents: dict[str, Origin] = field(default_factory=dict)
    """How many steps each grid axis has."""
    said: list[Said] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, size in self.settled.sizes.items():
            self.sizes[name] = None if size is None else (size, "bound in advance")
        for name, (size, origin) in self.match.sizes.items():
            if size.const is not None:
                self.sizes.setdefault(name, (size, origin))

    # ---------------------------------------------------------------- sizes

    def value(self, name: str | int) -> Size | None:
        """The size that a name of the launch has in this call."""
        if isinstance(name, int):
            return Size.of(name)
        if name in self.sizes:
            known = self.sizes[name]
            return known[0] if known is not None else None
        if name in self.match.sizes:
            return self.of(self.match.sizes[name][0])
        return None

    def of(self, size: Size) -> Size | None:
        """A size over the kernel's type parameters in the caller's terms; none if some are not known."""
        values = {name: self.value(name) for name in size.names}
        known = {name: value for name, value in values.items() if value is not None}
        return size.substitute(known) if len(known) == len(values) else None

    def give(self, name: str, size: Size | None, origin: str, place: str) -> None:
        """Let ``name`` have ``size``; a bound that it breaks or another size that it has is said."""
        earlier = self.sizes.get(name)
        if size is None:
            self.sizes.setdefault(name, None)
            return
        multiple = self.match.kernel.facts.multiple(name)
        event = DimSize(dim=name, size=size, origin=origin, multiple=multiple, earlier=earlier)
        self.said.append((event, place))
        if earlier is not None:
            return
        self.sizes[name] = (size, origin)
        if name in self.match.sizes and name not in self.match.kernel.multiples:
            meaning = self.match.sizes[name][0]
            partly = meaning.substitute({n: v for n in meaning.names if (v := self.value(n)) is not None})
            fixed = linear(partly, size)
            if fixed is not None and fixed[0] in self.match.kernel.multiples:
                self.give(*fixed, origin, place)

    def check_names(self, given: tuple[str, ...], complete: bool) -> bool:
        """Say what is missing or unknown among the sizes named in the call; whether nothing was asked wrongly."""
        pattern, kernel = self.match.pattern, self.match.kernel
        known = dict.fromkeys([*pattern.blocks, *pattern.dims, *kernel.multiples])
        outside = {name for b in self.match.bound for part, _ in b.operand.windows for name in self._behind(part)}
        free = [name for name in kernel.multiples if name not in outside]
        needed = [name for name in (*pattern.blocks, *free) if not self._settled_by_itself(name)]
        event = CallSizes(launch=self.name, known=tuple(known), needed=tuple(needed), given=given, complete=complete)
        self.said.append((event, ""))
        return all(name in known for name in given)

    def _behind(self, part: str | int) -> frozenset[str]:
        meaning = None if isinstance(part, int) else self.match.meaning(part)
        return frozenset() if meaning is None else meaning.names

    def _settled_by_itself(self, name: str) -> bool:
        """Whether a block size is fixed by the launch alone, or by other names."""
        return name in self.sizes or name in self.match.sizes

    # ---------------------------------------------------------------- arrays

    def check_count(self, count: int) -> bool:
        """Say that the call has more or fewer arrays than the pattern has inputs."""
        inputs = [b for b in self.match.bound if b.role == "in"]
        event = Operands(
            kernel=self.name,
            parameters=tuple((b.parameter.ref.name, "in") for b in inputs),
            inputs=count,
            outputs=0,
            scratch=0,
            source="this call",
        )
        self.said.append((event, ""))
        return count == len(inputs)

    def take(self, index: int, shape: Shape | None) -> None:
        """Read an input's shape: sizes of dims and grid axes, each with its origin."""
        bound = self.match.bound[index]
        if shape is None:
            return
        place, parts = f"array[{index}]", bound.operand.parts
        self.said.append((self._whole_array(bound, shape), place))
        if len(parts) != len(shape):
            return
        for axis, (part, size) in enumerate(zip(parts, shape, strict=True)):
            if size is None:
                continue
            origin = f"axis {axis} of `{bound.parameter.ref.name}`"
            if isinstance(part, Whole) and isinstance(part.dim, str):
                self.give(part.dim, size, origin, place)
            elif isinstance(part, Step):
                self._extent(part.axis, size, origin, place)
            elif isinstance(part, Cut):
                self._cut(part, size, origin, place)

    def _whole_array(self, bound: Bound, shape: Shape) -> Argument:
        """The array against its operand: the rank, and the numbers in the pattern."""
        parts = bound.operand.parts
        numbers = [
            Size.of(part.dim) if isinstance(part, Whole) and isinstance(part.dim, int) else None for part in parts
        ]
        return Argument(
            kernel=self.match.kernel.name,
            ref=RefFact(name=bound.parameter.ref.name, space=None, dtype=None, shape=tuple(numbers)),
            source=f"`{bound.operand}` of the pattern",
            block=shape,
            what="array",
        )

    def _cut(self, part: Cut, size: Size, origin: str, place: str) -> None:
        key, ragged = (part.axis, part.block), self.settled.ragged
        earlier = self.arrays.setdefault(key, (size, origin))
        if earlier[1] != origin and ragged is not None and part.block not in ragged:
            event = DimSize(dim=str(part), size=size, origin=origin, earlier=earlier)
            self.said.append((event, place))
            return
        block = self.value(part.block)
        if block is not None and block.const != 0:
            self._extent(part.axis, size.cdiv(block), f"{origin} in blocks of {block}", place)

    def _extent(self, axis: str, steps: Size, origin: str, place: str) -> None:
        earlier = self.extents.setdefault(axis, (steps, origin))
        if earlier[1] != origin and earlier[0].const is not None and steps.const is not None:
            event = DimSize(dim=axis, size=steps, origin=origin, earlier=earlier)
            self.said.append((event, place))

    # ---------------------------------------------------------------- windows and results

    def array(self, bound: Bound) -> Shape:
        """The shape of an operand's array as the pattern has it."""
        return tuple(self._array_dim(part) for part in bound.operand.parts)

    def _array_dim(self, part: Cut | Step | Whole) -> Size | None:
        if isinstance(part, Whole):
            return self.value(part.dim)
        steps = self.extents.get(part.axis)
        if isinstance(part, Step):
            return steps[0] if steps else None
        known = self.arrays.get((part.axis, part.block))
        if known is not None:
            return known[0]
        block = self.value(part.block)
        return steps[0] * block if steps and block is not None else None

    def windows(self, shapes: Mapping[int, Shape | None]) -> Iterator[Said]:
        """Each operand's block over its array."""
        if self.settled.ragged is None:
            return
        for index, bound in enumerate(self.match.bound):
            shape = shapes.get(index)
            parts = bound.operand.parts
            array = shape if shape is not None and len(shape) == len(parts) else self.array(bound)
            yield self._window(bound, array, self.settled.ragged), f"array[{index}]" if bound.role == "in" else ""

    def _window(self, bound: Bound, array: Shape, ragged: frozenset[str]) -> Window:
        parts, ref = bound.operand.parts, bound.parameter.ref
        blocks = [p.block if isinstance(p, Cut) else p.dim if isinstance(p, Whole) else None for p in parts]
        return Window(
            name=ref.name,
            role=bound.role,
            space=ref.space,
            dtype=ref.dtype,
            block=tuple("squeezed" if b is None else self.value(b) for b in blocks),
            array=array,
            ragged=frozenset(i for i, b in enumerate(blocks) if b in ragged),
            block_names=tuple(b if isinstance(b, str) else None for b in blocks),
        )
