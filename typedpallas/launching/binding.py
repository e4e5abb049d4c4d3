"""Arrays and sizes given to a launch, put together into a `Plan`, or refused with the origin of every number."""

import operator
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import jax.numpy as jnp

from typedpallas.chips import Target
from typedpallas.dims import Size
from typedpallas.events import CallSizes, Context, DimSize, Event, GridAxis, Window
from typedpallas.launching import element_types
from typedpallas.launching.errors import LaunchError, refuse_by_rule
from typedpallas.launching.plan import Piece, Plan, Planned, PlannedScratch
from typedpallas.launching.signature import Signature, Slot
from typedpallas.pattern import Cut, Operand, Part, Step, Whole

type Arrays = Sequence[jax.Array | jax.ShapeDtypeStruct]


@dataclass(frozen=True)
class Given:
    """What the launch and its call say beside the arrays. Sizes in elements, or steps for grid axes."""

    call: Mapping[str, Any]
    bound: Mapping[str, Any] = field(default_factory=dict)
    dims: Mapping[str, Any] = field(default_factory=dict)
    dtypes: Mapping[str, Any] = field(default_factory=dict)
    ragged: frozenset[str] = frozenset()
    parallel: tuple[str, ...] | None = None


class _Sizes:
    """Sizes as they become known. Every one is judged; the first stays."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.values: dict[str, int] = {}
        self.origins: dict[str, str] = {}
        self.events: list[Event] = []

    def give(self, dim: str, size: int, origin: str) -> None:
        known = dim in self.values
        earlier = (Size.of(self.values[dim]), self.origins[dim]) if known else None
        multiple = 1 if known else self.signature.kernel.facts.multiple(dim)
        self.events.append(DimSize(dim=dim, size=Size.of(size), origin=origin, multiple=multiple, earlier=earlier))
        self.values.setdefault(dim, size)
        self.origins.setdefault(dim, origin)

    def judge(self) -> None:
        refuse_by_rule(self.events, Context(), kernel=self.signature.kernel.name)
        self.events.clear()


def bind(signature: Signature, arrays: Arrays, given: Given, target: Target | None = None) -> Plan:
    """Everything known.

    Raises:
        PlacementError: a rule is broken: sizes disagree, a size is missing, a block does not divide, ...
        LaunchError: what no rule covers: the number of arrays, their ranks and element types.
    """
    _check_count(signature, arrays)
    sizes = _Sizes(signature)
    _give_named(sizes, given)
    for slot, array in zip(signature.inputs, arrays, strict=True):
        _give_whole(sizes, slot, array.shape)
    sizes.judge()
    _check_complete(sizes)
    groups = _give_grid(sizes, arrays, given)
    sizes.judge()
    dtypes = element_types.bind(signature, arrays, given.dtypes)
    inputs = tuple(
        _planned(slot, tuple(array.shape), dtypes[slot.name], sizes)
        for slot, array in zip(signature.inputs, arrays, strict=True)
    )
    outputs = tuple(
        _planned(slot, _output_shape(slot.operand, sizes, groups), dtypes[slot.name], sizes)
        for slot in signature.outputs
    )
    grid = {axis: sizes.values[axis] for axis in signature.pattern.grid}
    plan = Plan(
        signature, grid, _parallel(signature, given), dict(sizes.values), inputs, outputs, _scratch(sizes, dtypes)
    )
    refuse_by_rule(_windows(plan, given), Context(target=target), kernel=plan.name)
    _check_parallel(plan)
    return plan


def _check_count(signature: Signature, arrays: Arrays) -> None:
    name, expected = signature.kernel.name, len(signature.inputs)
    if len(arrays) != expected:
        names = ", ".join(f"`{slot.name}`" for slot in signature.inputs)
        raise LaunchError(f"`{name}` takes {expected} arrays ({names}), found {len(arrays)}")
    for slot, array in zip(signature.inputs, arrays, strict=True):
        shape = getattr(array, "shape", None)
        if shape is None or not hasattr(array, "dtype"):
            raise LaunchError(f"`{slot.name}` of `{name}`: expected an array, found {type(array).__name__}")
        if len(shape) != len(slot.operand.parts):
            raise LaunchError(
                f"`{slot.name}` of `{name}`: expected rank {len(slot.operand.parts)} (`{slot.operand}`), found rank "
                f"{len(shape)} (shape {tuple(shape)})"
            )
        if 0 in shape:
            raise LaunchError(f"`{slot.name}` of `{name}`: expected at least one element, found shape {tuple(shape)}")


def _give_named(sizes: _Sizes, given: Given) -> None:
    """Sizes by name: the kernel's own, then the call's, then those bound in advance, which the call replaces."""
    signature = sizes.signature
    for name, size in signature.literals.items():
        sizes.give(name, size, f"in the annotations of `{signature.kernel.name}`")
    known = signature.names + signature.pattern.grid
    named = {**given.dims, **given.bound, **given.call}
    sizes.events.append(CallSizes(launch=signature.kernel.name, known=known, needed=(), given=tuple(named)))
    sizes.judge()
    sources = ((given.call, "in this call"), (given.bound, "bound in advance"), (given.dims, "in `dims=`"))
    for source, where in sources:
        for name, value in source.items():
            if named.get(name) is value:
                del named[name]
                sizes.give(name, _size(name, value), f"`{name}={value}` {where}")


def _size(name: str, value: Any) -> int:
    try:
        size = operator.index(value)
    except TypeError:
        raise LaunchError(f"`{name}`: expected a whole number of elements, found {value!r}") from None
    if size < 1:
        raise LaunchError(f"`{name}`: expected at least 1, found {size}")
    return size


def _give_whole(sizes: _Sizes, slot: Slot, shape: tuple[int, ...]) -> None:
    for axis, (part, size) in enumerate(zip(slot.operand.parts, shape, strict=True)):
        origin = f"axis {axis} of `{slot.name}`"
        if isinstance(part, Whole) and isinstance(part.dim, str):
            sizes.give(part.dim, size, origin)
        elif isinstance(part, Whole) and part.dim != size:
            raise LaunchError(f"{origin} (shape {shape}): expected {part.dim} (`{slot.operand}`), found {size}")


def _check_complete(sizes: _Sizes) -> None:
    signature = sizes.signature
    needed = tuple(name for name in signature.names if name not in sizes.values)
    name = signature.kernel.name
    refuse_by_rule([CallSizes(launch=name, known=(), needed=needed, given=())], Context(), kernel=name)


def block_size(part: Cut, sizes: Mapping[str, int]) -> int:
    """Elements in one block."""
    return part.block if isinstance(part.block, int) else sizes[part.block]


def _give_grid(sizes: _Sizes, arrays: Arrays, given: Given) -> dict[tuple[str, str | int], int]:
    """Steps of every grid axis; returns the elements along each group ``(i BM)`` that an array fixes."""
    groups: dict[tuple[str, str | int], int] = {}
    for slot, array in zip(sizes.signature.inputs, arrays, strict=True):
        if slot.spec is not None:
            continue
        for axis, (part, extent) in enumerate(zip(slot.operand.parts, array.shape, strict=True)):
            origin = f"axis {axis} of `{slot.name}`"
            if isinstance(part, Step):
                sizes.give(part.axis, extent, origin)
            elif isinstance(part, Cut):
                sizes.give(str(part), extent, origin)
                if (part.axis, part.block) not in groups:
                    block = block_size(part, sizes.values)
                    sizes.give(part.axis, -(-extent // block), f"{extent}/{block} from {origin}")
                    groups[part.axis, part.block] = extent
    for name in sizes.signature.pattern.grid:
        if name not in sizes.values:
            raise LaunchError(
                f"nothing gives grid axis `{name}` of `{sizes.signature.kernel.name}` its number of steps: "
                f"expected `dims={{'{name}': ...}}`, for no input is cut along it"
            )
    return groups


def _output_shape(operand: Operand, sizes: _Sizes, groups: Mapping[tuple[str, str | int], int]) -> tuple[int, ...]:
    def extent(part: Part) -> int:
        if isinstance(part, Cut):
            whole = sizes.values[part.axis] * block_size(part, sizes.values)
            return groups.get((part.axis, part.block), whole)
        if isinstance(part, Step):
            return sizes.values[part.axis]
        return part.dim if isinstance(part.dim, int) else sizes.values[part.dim]

    return tuple(map(extent, operand.parts))


def _planned(slot: Slot, array: tuple[int, ...], dtype: Any, sizes: _Sizes) -> Planned:
    def piece(part: Part) -> Piece:
        if isinstance(part, Cut):
            return Piece(part.axis, block_size(part, sizes.values))
        if isinstance(part, Step):
            return Piece(part.axis, None)
        return Piece(None, part.dim if isinstance(part.dim, int) else sizes.values[part.dim])

    return Planned(slot, array, dtype, tuple(map(piece, slot.operand.parts)))


def _scratch(sizes: _Sizes, dtypes: Mapping[str, Any]) -> tuple[PlannedScratch, ...]:
    found = []
    for parameter in sizes.signature.scratch:
        assert parameter.type is not None
        shape = tuple(size.evaluate(sizes.values) for size in parameter.type.shape or ())
        found.append(PlannedScratch(parameter.name, parameter.type.space, dtypes.get(parameter.name), shape))
    return tuple(found)


def _windows(plan: Plan, given: Given) -> list[Event]:
    """The block of every operand; a cut that several share is refused once, where it is first."""
    judged: set[str] = set()
    found: list[Event] = []
    for role, operands in _by_role(plan):
        for planned in operands:
            if planned.slot.spec is None:
                found.append(_window(planned, role, given, judged))
                judged |= {str(part) for part in planned.slot.operand.parts}
    return found


def _by_role(plan: Plan) -> tuple[tuple[Literal["in", "out"], tuple[Planned, ...]], ...]:
    return ("in", plan.inputs), ("out", plan.outputs)


def _window(planned: Planned, role: Literal["in", "out"], given: Given, judged: Set[str]) -> Event:
    parts = planned.slot.operand.parts
    return Window(
        name=planned.name,
        role=role,
        space=planned.space,
        dtype=jnp.dtype(planned.dtype).name,
        block=tuple("squeezed" if piece.block is None else Size.of(piece.block) for piece in planned.pieces),
        array=tuple(Size.of(extent) for extent in planned.array),
        ragged=_ragged_axes(planned, given.ragged) | {i for i, part in enumerate(parts) if str(part) in judged},
        block_names=tuple(map(_block_name, parts)),
    )


def _block_name(part: Part) -> str | None:
    return part.block if isinstance(part, Cut) and isinstance(part.block, str) else None


def _ragged_axes(planned: Planned, ragged: frozenset[str]) -> frozenset[int]:
    parts = enumerate(planned.slot.operand.parts)
    return frozenset(i for i, part in parts if isinstance(part, Cut) and {part.axis, str(part.block)} & ragged)


def _parallel(signature: Signature, given: Given) -> tuple[str, ...]:
    if given.parallel is not None:
        return tuple(axis for axis in signature.pattern.grid if axis in given.parallel)
    return tuple(axis for axis in signature.pattern.grid if axis not in signature.pattern.sequential)


def _check_parallel(plan: Plan) -> None:
    """Axes that an output lacks and that were called parallel: their steps would race on one block."""
    events: list[Event] = [
        GridAxis(axis=axis, output=out.name, in_output=False, declared_parallel=True, trailing=True)
        for out in plan.outputs
        for axis in plan.parallel
        if axis not in out.axes and plan.grid[axis] > 1 and out.slot.spec is None
    ]
    refuse_by_rule(events, Context(), kernel=plan.name)
