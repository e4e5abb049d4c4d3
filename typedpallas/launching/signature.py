"""A kernel's parameters matched with the operands of its pattern, once, when the launch is made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typedpallas import pattern as patterns
from typedpallas.dims import Size
from typedpallas.events import Argument, Context, Event, Operands, RefFact
from typedpallas.launching.errors import LaunchError, refuse_by_rule
from typedpallas.pattern import Operand, Pattern, Whole
from typedpallas.types import KernelType, Parameter, RefType, kernel_type

type IndexFunction = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class Spec:
    """One operand whose place along the grid a pattern cannot say. Made by `spec`."""

    text: str
    index: IndexFunction | None
    offset: IndexFunction | None


def spec(text: str, *, index: IndexFunction | None = None, offset: IndexFunction | None = None) -> Spec:
    """One operand with its own index map: an item of a pattern that is given as a sequence.

    ``text`` says what a block is, as in any pattern (``"b h S D"`` with ``grid="b h i"``: two squeezed dims and
    two whole ones). Where the block lies comes from ``index`` or ``offset``, a function of the grid ids in grid
    order (and of the prefetched refs after them). The array's own sizes are then free of the grid's.

    Args:
        text: the operand's parts.
        index: gives block indices, one for each dim of the array.
        offset: gives offsets in elements, one for each dim of the array. Mosaic TPU only.

    Raises:
        LaunchError: neither or both of ``index`` and ``offset`` are given.
    """
    if (index is None) == (offset is None):
        raise LaunchError("tp.spec takes `index=` (block indices) or `offset=` (elements): exactly one of them")
    return Spec(text, index, offset)


type PatternLike = str | Sequence[str | Spec]


@dataclass(frozen=True)
class Slot:
    """One operand of the pattern and the kernel parameter that sees its block."""

    name: str
    position: int
    """Among the inputs or among the outputs."""
    operand: Operand
    ref: RefType
    spec: Spec | None


@dataclass(frozen=True)
class Signature:
    """A launch before any array is seen."""

    kernel: KernelType
    pattern: Pattern
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    scratch: tuple[Parameter, ...]
    literals: Mapping[str, int]
    """Sizes that the kernel's own annotations fix."""

    @property
    def aliases(self) -> dict[int, int]:
        """Input position to output position of every `InOut` parameter."""
        outputs = {slot.name: slot.position for slot in self.outputs}
        return {slot.position: outputs[slot.name] for slot in self.inputs if slot.name in outputs}

    @property
    def names(self) -> tuple[str, ...]:
        """Every size that a call may name, in order of appearance; grid axes are not among them."""
        own = (*self.pattern.blocks, *self.pattern.dims, *self.kernel.dims)
        return tuple(dict.fromkeys(own))


def _pieces(pattern: PatternLike) -> tuple[str, list[Spec | None]]:
    """The pattern as one text, and for each operand the `Spec` that it came from."""
    if isinstance(pattern, str):
        return pattern, []
    text = ""
    origins: list[Spec | None] = []
    for piece in pattern:
        part = piece.text if isinstance(piece, Spec) else piece
        glue = "" if not text or part.lstrip().startswith("->") or text.rstrip().endswith("->") else ", "
        text += f"{glue}{part}" if glue else f" {part}" if text else part
        if isinstance(piece, Spec):
            origins.append(piece)
        else:
            origins += [None] * sum(1 for operand in part.replace("->", ",").split(",") if operand.strip())
    return text, origins


def read(kernel: Callable[..., Any], pattern: PatternLike, grid: str) -> Signature:
    """Match a kernel with a pattern.

    Raises:
        PatternError, AnnotationError: one of the two means nothing by itself.
        PlacementError: they disagree on arity, rank, sizes or spaces; every disagreement is listed.
        LaunchError: a parameter has no place in a launch.
    """
    text, specs = _pieces(pattern)
    parsed = patterns.parse(text, grid)
    found = kernel_type(kernel)
    specs = specs or [None] * (len(parsed.inputs) + len(parsed.outputs))
    _check_parameters(found)
    refuse_by_rule([_operands(found, parsed)], Context(), kernel=found.name)
    read_by, written_by = found.of("in", "inout"), found.of("out", "inout")
    ins = tuple(_slot(p, i, parsed.inputs[i], specs[i]) for i, p in enumerate(read_by))
    count = len(parsed.inputs)
    outs = tuple(_slot(p, i, parsed.outputs[i], specs[count + i]) for i, p in enumerate(written_by))
    literals = _literals(ins + outs)
    signature = Signature(found, parsed, ins, outs, found.of("scratch"), literals)
    refuse_by_rule(_arguments(signature), Context(facts=found.facts), kernel=found.name)
    _check_aliases(signature)
    return signature


def _slot(parameter: Parameter, position: int, operand: Operand, own: Spec | None) -> Slot:
    assert parameter.type is not None
    return Slot(parameter.name, position, operand, parameter.type, own)


def _check_parameters(kernel: KernelType) -> None:
    for parameter in kernel.parameters:
        if parameter.type is None or parameter.type.direction == "ref":
            found = "no annotation" if parameter.type is None else f"`{parameter.type}`"
            raise LaunchError(
                f"parameter `{parameter.name}` of `{kernel.name}`: expected `In`, `Out`, `InOut` or `Scratch`, "
                f"found {found}"
            )
        if parameter.type.shape is None and parameter.type.direction == "scratch" and parameter.type.space.data:
            raise LaunchError(f"scratch `{parameter.name}` of `{kernel.name}`: expected a shape, found `...`")


def _operands(kernel: KernelType, pattern: Pattern) -> Operands:
    """What the arity rule sees; an `InOut` parameter takes an input and an output, and counts as the input."""
    directions = tuple((p.name, p.type.direction if p.type is not None else None) for p in kernel.parameters)
    both = len(kernel.of("inout"))
    return Operands(
        kernel=kernel.name,
        parameters=directions,
        inputs=len(pattern.inputs),
        outputs=len(pattern.outputs) - both,
        scratch=len(kernel.of("scratch")),
    )


def _literals(slots: Sequence[Slot]) -> dict[str, int]:
    """Names in the pattern whose size is a number in the kernel's annotation."""
    found: dict[str, int] = {}
    for slot in slots:
        if slot.ref.shape is None or len(slot.ref.shape) != len(slot.operand.windows):
            continue
        for (name, _), size in zip(slot.operand.windows, slot.ref.shape, strict=True):
            if isinstance(name, str) and size.const is not None:
                found.setdefault(name, size.const)
    return found


def _arguments(signature: Signature) -> list[Event]:
    return [_argument(signature, slot) for slot in signature.inputs + signature.outputs]


def _argument(signature: Signature, slot: Slot) -> Argument:
    block = tuple(Size.of(name).substitute(signature.literals) for name, _ in slot.operand.windows)
    return Argument(
        kernel=signature.kernel.name,
        ref=RefFact(
            name=slot.name, space=slot.ref.space, dtype=None, shape=slot.ref.shape, direction=slot.ref.direction
        ),
        source=f"`{slot.operand}`",
        block=block,
        windowed=any(not isinstance(part, Whole) for part in slot.operand.parts) or slot.spec is not None,
    )


def _check_aliases(signature: Signature) -> None:
    for position, target in signature.aliases.items():
        read_as, written_as = signature.inputs[position], signature.outputs[target]
        if read_as.operand != written_as.operand:
            raise LaunchError(
                f"`{read_as.name}` of `{signature.kernel.name}` is updated in place: expected one pattern for what "
                f"is read and what is written, found `{read_as.operand}` and `{written_as.operand}`"
            )
