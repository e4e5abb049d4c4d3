"""A walk through a kernel's body that follows integer scalars and refs, and calls a handler for each equation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from typedpallas.diagnostics import Place
from typedpallas.events import Backend
from typedpallas.spaces import MemorySpace
from typedpallas.starts.terms import Leaf, Term, Terms
from typedpallas.tracing import jaxapi
from typedpallas.tracing.ranges import numbers as ranges_numbers
from typedpallas.tracing.ranges.points import Path

type Op = Literal["load", "store", "copy", "signal"]


@dataclass(frozen=True, eq=False)
class Buffer:
    """A ref's memory. Extents in elements."""

    name: str
    space: type[MemorySpace] | None
    dtype: str | None
    memory: tuple[int, ...] | None
    """The shape that the compiler sees: dims that a block squeezes away are 1; none where unknown."""
    axes: tuple[int, ...] = ()
    """Where each dim of the ref is in ``memory``."""
    rows: int | None = None
    """The second-to-last extent that its tiles are made for: of a window, the whole array's."""

    @staticmethod
    def whole(
        name: str, space: type[MemorySpace] | None, dtype: str | None, shape: tuple[int | None, ...] | None
    ) -> "Buffer":
        """A buffer with no dims but those that the kernel sees."""
        extents = tuple(extent for extent in shape or () if extent is not None)
        if shape is None or len(extents) < len(shape):
            return Buffer(name, space, dtype, None)
        rows = extents[-2] if len(extents) > 1 else None
        return Buffer(name, space, dtype, extents, tuple(range(len(extents))), rows)


@dataclass(frozen=True)
class Part:
    """What an index takes of one dim: ``size`` elements from ``start``, ``stride`` apart; none where unknown."""

    start: Term | None
    size: int | None
    stride: int
    squeezed: bool
    extent: int | None
    sized: Term | None = None
    """The size, where it is known only when the kernel runs."""
    atoms: tuple[Any, Any] = (None, None)
    """The equation's operands that the start and the size are, where they are not written into it."""


@dataclass(frozen=True)
class Use:
    """One use of a ref: its views one after the other, the last of a load or store being its own index."""

    op: Op
    eqn: Any
    buffer: Buffer
    views: tuple[tuple[Part, ...], ...]
    plain: bool
    """Whether these are all of its views, and none of them changes its shape or type otherwise."""
    masked: bool
    path: Path
    jaxpr: Any
    """The jaxpr that ``eqn`` is in."""
    around: tuple[Any, ...] = ()
    """The equations that ``eqn`` is inside of, outermost first."""

    @property
    def place(self) -> Place:
        """The innermost line of a person's code; what JAX itself traces, as `pltpu.sync_copy`, has none inside."""
        places = map(jaxapi.place, (self.eqn, *reversed(self.around)))
        return next((place for place in places if place.file), Place())


@dataclass(frozen=True)
class Device:
    """Another device that a copy or a signal goes to: its coordinate by mesh axis, or its number (axis none)."""

    eqn: Any
    ids: tuple[tuple[Any, Term | None], ...]
    """Each mesh axis, or several taken as one, with the coordinate; a number alone has no axis (none)."""
    named: bool
    """Whether the axes are named; if not, each is a number: its place among the mesh's axes."""
    path: Path


@dataclass(frozen=True)
class Frame:
    """What the variables of one jaxpr stand for."""

    numbers: dict[Any, Term]
    refs: dict[Any, Buffer]
    path: Path

    def read(self, terms: Terms, atom: Any) -> Term:
        """The number that an operand stands for."""
        if jaxapi.is_literal(atom):
            value = ranges_numbers.literal(atom.val)
            return terms.unknown() if value is None else terms.const(value)
        found = self.numbers.get(atom)
        return terms.unknown() if found is None else found

    def entered(
        self, terms: Terms, variables: Sequence[Any], operands: Sequence[Any], path: Path | None = None
    ) -> "Frame":
        """The frame of a jaxpr inside, whose inputs are these operands."""
        entered = Frame({}, {}, self.path if path is None else path)
        for var, atom in zip(variables, operands, strict=True):
            if jaxapi.is_ref(var.aval):
                if not jaxapi.is_literal(atom) and atom in self.refs:
                    entered.refs[var] = self.refs[atom]
            elif ranges_numbers.is_number(var.aval):
                entered.numbers[var] = self.read(terms, atom)
        return entered

    def store(self, variables: Sequence[Any], results: Sequence[Term]) -> None:
        """Let the variables that are numbers stand for these results."""
        for var, term in zip(variables, results, strict=True):
            if ranges_numbers.is_number(var.aval):
                self.numbers[var] = term


@dataclass
class Walk:
    """A walk through one kernel's body."""

    programs: Sequence[Leaf]
    """The program id of each grid axis, as the body counts them."""
    backend: Backend | None
    terms: Terms = field(default_factory=Terms)
    uses: list[Use] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    bulk: list[tuple[Any, tuple[Part, ...], Path]] = field(default_factory=list)
    """Copies between global and shared memory of a GPU: what they take of the array in global memory."""
    axes: Mapping[str, int] = field(default_factory=dict)
    """The devices along each axis of the mesh around the kernel, as far as it is known."""
    places: dict[str, Leaf] = field(default_factory=dict)
    """The device's own place along each of them."""
    silent: int = 0
    """How many loops are being walked only for what they carry."""
    jaxpr: Any = None
    """The jaxpr whose equations are being walked."""
    around: list[Any] = field(default_factory=list)
    """The equations that are being walked, each inside of the one before."""

    def run(self, jaxpr: Any, frame: Frame) -> list[Term]:
        """Walk a jaxpr; its results, as far as they are numbers."""
        opened, outer = jaxapi.open_jaxpr(jaxpr), self.jaxpr
        for eqn in opened.eqns:
            self.jaxpr = opened
            handler = _HANDLERS.get(eqn.primitive.name)
            if handler is not None:
                self.around.append(eqn)
                handler(self, eqn, frame)
                self.around.pop()
            elif len(eqn.outvars) == 1 and ranges_numbers.is_number(eqn.outvars[0].aval):
                operands = [frame.read(self.terms, atom) for atom in eqn.invars]
                found = ranges_numbers.result(self.terms, eqn, operands)
                if found is not None:
                    frame.numbers[eqn.outvars[0]] = found
        self.jaxpr = outer
        return [frame.read(self.terms, atom) for atom in opened.outvars]


type Handler = Callable[[Walk, Any, Frame], None]

_HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Enter a function as the handler of these primitives."""

    def enter(handler: Handler) -> Handler:
        _HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return enter
