"""A call of a launch: sizes and arrays put into the pattern. Nothing here knows mypy.

Sizes are over the caller's own type parameters; every name of the launch is replaced by what the call gives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from typedpallas.dims import Size
from typedpallas.events import Argument, CallSizes, DimSize, Event, Operands, RefFact, Shape, Window
from typedpallas.pattern import Cut, Part, Step, Whole
from typedpallas.records import record
from typedpallas_mypy.handlers.calls_match import Match, Origin, Slot, window_names


@record(frozen=True)
class Settled:
    """What a launch was told in advance. A size of none is given but not known."""

    dims: Mapping[str, Size | None] = field(default_factory=dict)
    bound: Mapping[str, Size | None] = field(default_factory=dict)
    ragged: frozenset[str] | None = frozenset()
    """Block sizes or grid axes whose last block may be partial; none if not known."""
    placed: frozenset[int] = frozenset()
    """Positions of the operands that have an index map of their own."""
    dtypes: frozenset[str] | None = frozenset()
    """Type parameters whose element type the launch was given; none if not known."""


type Said = tuple[Event, str]
"""An event and the part of the call that it is about: ``size[BM]``, ``array[0]`` or the whole call."""


@dataclass
class Call:
    """One call as it is put together; ``said`` collects the events."""

    match: Match
    settled: Settled
    name: str
    sizes: dict[str, Origin | None] = field(default_factory=dict)
    """Sizes of dims, blocks and cuts ``(i BM)``, and the number of steps of grid axes."""
    said: list[Said] = field(default_factory=list)

    def value(self, name: str | int) -> Size | None:
        """The size that a name of the launch has in this call."""
        if isinstance(name, int):
            return Size.of(name)
        if name in self.sizes:
            known = self.sizes[name]
            return None if known is None else known[0]
        meaning = self.match.meanings.get(name)
        return None if meaning is None else self.of(meaning)

    def of(self, size: Size) -> Size | None:
        """A size over the kernel's type parameters in the caller's terms; none if some are not known."""
        values = {name: self.value(name) for name in size.names}
        known = {name: value for name, value in values.items() if value is not None}
        return size.substitute(known) if len(known) == len(values) else None

    def give(self, name: str, size: Size | None, origin: str, place: str) -> None:
        """Let ``name`` have ``size``; a bound that it breaks or another size that it has is said."""
        if size is None:
            self.sizes.setdefault(name, None)
            return
        earlier = self.sizes.get(name)
        multiple = 1 if earlier is not None else self.match.kernel.facts.multiple(name)
        event = DimSize(dim=name, size=size, origin=origin, multiple=multiple, earlier=earlier)
        self.said.append((event, place))
        if earlier is None:
            self.sizes[name] = (size, origin)

    # ---------------------------------------------------------------- names

    def name_sizes(self, given: Mapping[str, Size | None], *, complete: bool) -> None:
        """Take the sizes by name: the kernel's own, the call's, then those settled in advance."""
        for name, meaning in self.match.meanings.items():
            if meaning.const is not None:
                self.give(name, meaning, f"in the annotations of `{self.match.kernel.name}`", "")
        self._check_names(given, complete)
        known = {*self.match.names, *self.match.pattern.grid}
        later = {**self.settled.dims, **self.settled.bound}
        for name, size in given.items():
            if name in known:
                self.give(name, size, f"`{name}={size}` in this call", f"size[{name}]")
        for name, size in later.items():
            if name in known and name not in given:
                self.give(name, size, f"`{name}={size}` given in advance", "")

    def _check_names(self, given: Mapping[str, Size | None], complete: bool) -> None:
        match, later = self.match, {**self.settled.dims, **self.settled.bound}
        whole = {p.dim for s in match.inputs for p in s.operand.parts if isinstance(p, Whole)}
        cut = {axis for s in match.inputs if not s.placed for axis in s.operand.axes}
        names = [n for n in match.names if n not in whole and n not in match.meanings]
        steps = [axis for axis in match.pattern.grid if axis not in cut]
        needed = [n for n in (*names, *steps) if n not in later]
        event = CallSizes(
            launch=self.name,
            known=(*match.names, *match.pattern.grid),
            needed=tuple(needed),
            given=tuple(given),
            complete=complete,
        )
        self.said.append((event, ""))

    # ---------------------------------------------------------------- arrays

    def check_count(self, count: int) -> None:
        """Say that the call has more or fewer arrays than the pattern has inputs."""
        event = Operands(
            kernel=self.name,
            parameters=tuple((slot.name, "in") for slot in self.match.inputs),
            inputs=count,
            outputs=0,
            scratch=0,
            source="this call",
        )
        self.said.append((event, ""))

    def take(self, shapes: Sequence[Shape | None]) -> None:
        """Read the inputs' shapes: whole dims first, then cuts and steps, as the launch does."""
        pairs = [(i, slot, s) for i, (slot, s) in enumerate(zip(self.match.inputs, shapes, strict=False))]
        read = [(i, slot, s) for i, slot, s in pairs if s is not None]
        for i, slot, shape in read:
            self.said.append((self._whole_array(slot, shape), f"array[{i}]"))
        fitting = [(i, slot, s) for i, slot, s in read if len(s) == len(slot.operand.parts)]
        for i, slot, shape in fitting:
            for axis, (part, size) in enumerate(zip(slot.operand.parts, shape, strict=True)):
                if isinstance(part, Whole) and isinstance(part.dim, str):
                    self.give(part.dim, size, f"axis {axis} of `{slot.name}`", f"array[{i}]")
        for i, slot, shape in fitting:
            for axis, (part, size) in enumerate(zip(slot.operand.parts, shape, strict=True)):
                if size is not None and not slot.placed:
                    self._along_grid(part, size, f"axis {axis} of `{slot.name}`", f"array[{i}]")

    def _whole_array(self, slot: Slot, shape: Shape) -> Argument:
        """The array against its operand: the rank, and the numbers in the pattern."""
        numbers = [p.dim if isinstance(p, Whole) and isinstance(p.dim, int) else None for p in slot.operand.parts]
        expected = tuple(None if number is None else Size.of(number) for number in numbers)
        return Argument(
            kernel=self.match.kernel.name,
            ref=RefFact(name=slot.name, space=None, dtype=None, shape=expected),
            source=f"`{slot.operand}` of the pattern",
            block=shape,
            what="array",
        )

    def _along_grid(self, part: Part, size: Size, origin: str, place: str) -> None:
        if isinstance(part, Step):
            self._steps(part.axis, size, origin, place)
        elif isinstance(part, Cut):
            first = str(part) not in self.sizes
            self.give(str(part), size, origin, place)
            block = self.value(part.block)
            if first and block is not None and block.const != 0:
                self._steps(part.axis, size.cdiv(block), f"{size}/{block} from {origin}", place)

    def _steps(self, axis: str, steps: Size, origin: str, place: str) -> None:
        """The steps of a grid axis. Two counts are only compared as numbers: quotients of names may be equal."""
        earlier = self.sizes.get(axis)
        if earlier is None:
            self.sizes[axis] = (steps, origin)
        elif earlier[0].const is not None and steps.const is not None:
            self.give(axis, steps, origin, place)

    # ---------------------------------------------------------------- windows and results

    def array(self, slot: Slot) -> Shape:
        """The shape of an operand's array as the pattern has it."""
        return tuple(self._array_dim(part) for part in slot.operand.parts)

    def _array_dim(self, part: Part) -> Size | None:
        if isinstance(part, Whole):
            return self.value(part.dim)
        steps = self.value(part.axis)
        if isinstance(part, Step):
            return steps
        whole, block = self.value(str(part)), self.value(part.block)
        if whole is not None:
            return whole
        return None if steps is None or block is None else steps * block

    def windows(self, shapes: Sequence[Shape | None]) -> Iterator[Said]:
        """Each operand's block over its array. That a block divides is owed once for each cut, by the first that
        has it."""
        ragged = self.settled.ragged
        if ragged is None:
            return
        owed: set[str] = set()
        given = [*shapes, *[None] * len(self.match.inputs)]
        for i, slot in enumerate(self.match.inputs + self.match.outputs):
            if slot.placed:
                continue
            shape = given[i] if slot.role == "in" else None
            fits = shape is not None and len(shape) == len(slot.operand.parts)
            array = shape if fits and shape is not None else self.array(slot)
            yield self._window(slot, array, ragged, owed), f"array[{i}]" if slot.role == "in" else ""
            owed |= {str(part) for part in slot.operand.parts}

    def _window(self, slot: Slot, array: Shape, ragged: frozenset[str], owed: set[str]) -> Window:
        parts, ref, names = slot.operand.parts, slot.parameter.ref, window_names(slot.operand)
        block: list[Size | Literal["squeezed"] | None] = []
        for part, dim, name in zip(parts, array, names, strict=True):
            block.append("squeezed" if name is None else dim if isinstance(part, Whole) else self.value(name))
        cuts = [(axis, part) for axis, part in enumerate(parts) if isinstance(part, Cut)]
        return Window(
            name=ref.name,
            role=slot.role,
            space=ref.space,
            dtype=ref.dtype,
            block=tuple(block),
            array=array,
            ragged=frozenset(i for i, part in cuts if str(part) in owed or {part.axis, str(part.block)} & ragged),
            block_names=tuple(name if isinstance(name, str) else None for name in names),
        )
