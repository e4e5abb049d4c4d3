"""The indices of a kernel's refs as slices in numbers, for the rules about bounds and alignment."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from typedpallas.events import Context, Known, Slice, SlicePart, Step
from typedpallas.starts import proofs as ranges_proofs
from typedpallas.starts.bounds import Bounds, bounds
from typedpallas.starts.terms import Term, Terms, leaves
from typedpallas.tracing.located import Located
from typedpallas.tracing.outer import program as grid_around
from typedpallas.tracing.ranges import devices as ranges_devices
from typedpallas.tracing.ranges import scalars as ranges_scalars
from typedpallas.tracing.ranges import walk as ranges_walk
from typedpallas.tracing.ranges.frames import Buffer, Part, Use
from typedpallas.tracing.ranges.outside import outside
from typedpallas.tracing.ranges.picked import Users, picked
from typedpallas.tracing.ranges.points import Bools, Condition, Ints, Path, find
from typedpallas.tracing.walk import KernelCall

_LANES = 128
_MOST_COPIES = 64
"""An unrolled loop of more turns is looked at as if it were none."""


def events(kernel: KernelCall, context: Context) -> Iterator[Located]:
    """One `Slice` for each index that is not just all of its ref, at its line; the same one twice is one.

    A store to all of an array of one dim is one too: some chips have no mask for its end.
    """
    known: Bounds = {}
    seen: set[object] = set()
    layouts, users = _Layouts(kernel), Users()
    walk = ranges_walk.walked(kernel)
    uses = walk.uses
    yield from ranges_devices.events(kernel, walk, known)
    yield from ranges_scalars.events(uses, kernel.name)
    for use in uses:
        indexed = list(_indexed(use))
        whole_row = use.op == "store" and not use.views and len(use.buffer.memory or ()) == len(use.buffer.axes) == 1
        if not indexed and not whole_row:
            continue
        place = use.place
        if whole_row:
            whole = tuple(SlicePart(axis=0, extent=n, start=0, size=n) for n in use.buffer.memory or ())
            yield Located(layouts.slice(use.op, use.buffer, whole), place, kernel.name)
        for number, (buffer, parts, op) in enumerate(indexed):
            key = (use.op, id(use.buffer), number, tuple(map(_key, parts)), place if use.op != "copy" else None)
            if key in seen:
                continue
            seen.add(key)
            for path, copied in _copies(use.path, parts):
                event = layouts.slice(
                    op, buffer, _all_measured(copied, path, known, use.masked), _is_picked(use, users)
                )
                yield Located(event, place, kernel.name)


def by_part(kernel: KernelCall) -> Iterator[tuple[Use, tuple[Part, ...], Slice]]:
    """Each index of each use of a ref with its event, its parts in the order of the ref's dims."""
    known: Bounds = {}
    layouts = _Layouts(kernel)
    for use in ranges_walk.walked(kernel).uses:
        for buffer, parts, op in _indexed(use):
            for path, copied in _copies(use.path, parts):
                yield use, copied, layouts.slice(op, buffer, _all_measured(copied, path, known, use.masked))


def _indexed(use: Use) -> Iterator[tuple[Buffer, tuple[Part, ...], Any]]:
    """Each index of a use that is not just all of its ref, with the buffer that it indexes and what it is for."""
    for number, (buffer, parts) in enumerate(_addressed(use)):
        if all(_is_whole(part) for part in parts) and not (use.op == "store" and len(buffer.memory or ()) == 1):
            continue
        last = number == len(use.views) - 1
        yield buffer, parts, use.op if use.op in ("copy", "signal") else use.op if last and use.plain else "view"


def _key(part: Part) -> tuple[object, ...]:
    return (id(part.start), part.size, id(part.sized), part.stride, part.squeezed)


def _is_picked(use: Use, users: Users) -> bool:
    return use.op == "load" and use.eqn.outvars[0].aval.shape == () and picked(use.jaxpr, use.eqn.outvars[0], users)


def _is_whole(part: Part) -> bool:
    start = None if part.start is None else part.start.const
    return not part.squeezed and start == 0 and part.size == part.extent and part.stride == 1


def _addressed(use: Use) -> Iterator[tuple[Buffer, tuple[Part, ...]]]:
    """Each view with the buffer that it indexes: the use's own, then what the views before it left of it."""
    buffer = use.buffer
    for parts in use.views:
        yield buffer, parts
        buffer = _left(buffer, parts, use.op == "copy")


def _left(buffer: Buffer, parts: Sequence[Part], for_copy: bool) -> Buffer:
    """The buffer behind a view, whose tiles are those of the whole.

    Its layout is known where the view leaves the last two dims whole; for a copy, where it leaves the array as wide
    or as narrow as it was, too.
    """
    if buffer.memory is None or len(parts) != len(buffer.axes):
        return replace(buffer, memory=None)
    memory, tiled = list(buffer.memory), len(buffer.memory) - min(2, len(buffer.memory))
    axes = []
    for part, axis in zip(parts, buffer.axes, strict=True):
        if not _is_whole(part):
            if part.size is None or (axis >= tiled and not (for_copy and _keeps_width(buffer.memory, axis, part))):
                return replace(buffer, memory=None)
            memory[axis] = part.size
        if not part.squeezed:
            axes.append(axis)
    return replace(buffer, memory=tuple(memory), axes=tuple(axes))


def _keeps_width(memory: Sequence[int], axis: int, part: Part) -> bool:
    """Whether a slice of one of the last two of several dims leaves rows of more, or of at most, 128 elements."""
    if len(memory) < 2 or part.squeezed or part.stride != 1 or part.size is None:
        return False
    return axis < len(memory) - 1 or (part.size > _LANES) == (memory[axis] > _LANES)


def _copies(path: Path, parts: tuple[Part, ...]) -> Iterator[tuple[Path, tuple[Part, ...]]]:
    """The parts in each copy of an unrolled loop's body, where they depend on one."""
    terms = [part.start for part in parts if part.start is not None]
    turn = next((leaf for leaf in leaves(*terms) if leaf.unrolled), None)
    if turn is None or turn.high is None or turn.high >= _MOST_COPIES:
        yield path, parts
        return
    made = Terms()
    for value in range(turn.high + 1):
        here = Condition(made.apply("eq", made.leaf(turn), made.const(value)), 1, 1)
        written = tuple(
            part if part.start is None else replace(part, start=made.replaced(part.start, turn, value))
            for part in parts
        )
        yield from _copies(replace(path, conditions=(*path.conditions, here)), written)


def _all_measured(parts: Sequence[Part], path: Path, known: Bounds, masked: bool) -> tuple[SlicePart, ...]:
    return tuple([_measured(part, axis, path, known, masked) for axis, part in enumerate(parts)])


def _measured(part: Part, axis: int, path: Path, known: Bounds, masked: bool) -> SlicePart:
    term, extent = part.start, part.extent or 0
    if term is None or part.extent is None:
        return SlicePart(axis=axis, extent=extent, start=None, size=part.size, stride=part.stride)
    # Terms of one walk live as long as the walk, so that their `id`s are theirs alone in ``known``.
    span = None if part.size is None else (part.size - 1) * part.stride + 1

    def proves(divisor: int) -> Known:
        return ranges_proofs.proves(divisor, term)

    length = part.sized

    def sized(divisor: int) -> Known:
        assert length is not None
        return ranges_proofs.proves(divisor, length)

    def breaks(divisor: int) -> Step | None:
        found = find(term, path, lambda values: values % divisor != 0)
        return None if found is None else Step(at=found.at, start=found.value)

    return SlicePart(
        axis=axis,
        extent=extent,
        start=term.const,
        size=part.size,
        stride=part.stride,
        squeezed=part.squeezed,
        multiple=bounds(term, known).multiple,
        outside=None if masked or span is None else outside(term, path, known, extent - span),
        only=None if masked or span is None else _only(term, path, known, extent - span),
        sized=None if length is None else sized,
        proves=proves,
        breaks=breaks,
    )


def _only(term: Term, path: Path, known: Bounds, last: int) -> int | None:
    """The one value of a number from data to which a start adds known steps that take up all the room there is."""
    if term.op != "add" or not path.runs:
        return None
    for data, steps in (term.args, term.args[::-1]):
        unknown = [leaf for leaf in leaves(data) if not leaf.known]
        if not unknown or not all(leaf.followed for leaf in unknown) or any(not leaf.known for leaf in leaves(steps)):
            continue
        span, own = bounds(steps, known), bounds(data, known)
        if span.low is None or span.high is None or span.low == span.high:
            continue
        low, high = max(-span.low, own.low or -span.low), last - span.high
        if low == high and all(find(steps, path, _equals(end)) for end in (span.low, span.high)):
            return low
    return None


def _equals(number: int) -> Callable[[Ints], Bools]:
    return lambda values: values == number


class _Layouts:
    """What is known of the layouts of a kernel's buffers."""

    def __init__(self, kernel: KernelCall) -> None:
        self._fixed = {op.name: _is_fixed(kernel, number) for number, op in enumerate(kernel.operands)}
        self._given = {op.name for op in kernel.operands if op.role != "scratch"}

    def slice(self, op: Any, buffer: Buffer, parts: tuple[SlicePart, ...], picked: bool = False) -> Slice:
        """The event, its parts put where they are in memory."""
        laid_out = buffer.memory is not None and len(parts) == len(buffer.axes)
        numbered = parts
        if laid_out and buffer.memory is not None:
            placed = [SlicePart(axis=None, extent=extent, start=0, size=extent) for extent in buffer.memory]
            for part, axis in zip(numbered, buffer.axes, strict=True):
                placed[axis] = part
            numbered = tuple(placed)
        return Slice(
            name=buffer.name,
            op=op,
            space=buffer.space,
            dtype=buffer.dtype,
            parts=numbered,
            laid_out=laid_out,
            rows=buffer.rows,
            scratch=buffer.name not in self._given,
            fixed=self._fixed.get(buffer.name, True),
            picked=picked,
        )


def _is_fixed(kernel: KernelCall, number: int) -> bool:
    """Whether an operand is scratch, or an argument or result of the program, which have the usual layout."""
    operand = kernel.operands[number]
    if operand.role == "scratch":
        return True
    outputs = [op.role for op in kernel.operands[:number]].count("out")
    if operand.role == "out":
        return grid_around.is_result(kernel, outputs)
    dynamic = sum(extent is None for extent in kernel.grid)
    return grid_around.is_argument(kernel, number + dynamic)
