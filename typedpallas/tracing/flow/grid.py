"""Walk a kernel over its grid: step by step, or by the first step along an axis, those between, and the last."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow import buffers as flow_buffers
from typedpallas.tracing.flow import cells
from typedpallas.tracing.flow import control as _control  # noqa: F401  enters its handlers
from typedpallas.tracing.flow import copies as flow_copies
from typedpallas.tracing.flow import loops as flow_loops
from typedpallas.tracing.flow import padding as flow_padding
from typedpallas.tracing.flow import segments as flow_segments
from typedpallas.tracing.flow.blocks import Blocks
from typedpallas.tracing.flow.claims import Garbage
from typedpallas.tracing.flow.memo import Memo
from typedpallas.tracing.flow.numbers import Number, Stepped, exact
from typedpallas.tracing.flow.run import NotFollowed, Run
from typedpallas.tracing.flow.segments import Segments
from typedpallas.tracing.flow.settled import Settled
from typedpallas.tracing.flow.state import Bound, Buffer, Ids
from typedpallas.tracing.walk import KernelCall, Operand

_TELLING = 4
"""After a part of what may be spent, one of so many, the steps so far tell about all of them."""
_HOPELESS = 1.5
"""Where all steps would take so many times what may be spent."""


@dataclass(frozen=True)
class Window:
    """An output whose block moves with the grid. ``axes``: the grid axes that its index depends on."""

    buffer: Buffer
    operand: Operand
    axes: frozenset[int]
    keeps: int
    """What a block holds at first."""


@dataclass
class Grid:
    """A kernel on its grid. ``hidden`` axes, made by `jax.vmap`, are not seen by the body."""

    kernel: KernelCall
    extents: tuple[int, ...]
    hidden: frozenset[int]
    segments: Sequence[Segments]
    fresh: bool
    """Whether each program starts anew, as on a GPU."""
    run: Run
    tables: Sequence[Any] = ()
    """Contents of the scalars that are fetched ahead, in their order; none for those that are not known."""
    phases: int = 1
    """After how many steps along the last axis what the body does may come again."""
    windows: Sequence[Window] = ()
    partial: Sequence[tuple[Buffer, Operand]] = ()
    """Inputs with a block that reaches past the array's end."""
    frame: Mapping[Any, Bound] = field(default_factory=dict)
    meant: set[int] = field(default_factory=set)
    """Outputs of which some element of some block is not certainly garbage."""
    steps: int = 0
    """How many there are, where each is walked by itself: then a walk that will not do for all is soon given up."""
    _done: int = 0
    _spoiled: bool = False
    """Whether some block was written back with garbage in it."""
    _alike: frozenset[int] = frozenset()
    """Axes along which steps do the same."""
    _ticked: int | None = None
    _memo: Memo = field(init=False)
    _blocks: Blocks = field(init=False)

    def __post_init__(self) -> None:
        self._memo = Memo(self.kernel.jaxpr)
        self._blocks = Blocks(self.extents, self.run.plans)

    def walk(self) -> None:
        """All of the grid, then what is left over."""
        self._bind()
        self._alike = self._unread()
        self._axis(0, ())
        last = self._ids_at_end()
        for window in self.windows:
            if not self.fresh or self._is_shared(window):
                self._finish(window, last)
        for buffer in self.run.buffers.values():
            if buffer.role == "semaphore" and buffer.number in self.run.state.counts:
                flow_copies.leak(self.run, buffer)

    def _unread(self) -> frozenset[int]:
        """The axes whose ids make no difference but to which blocks windows hold, and to those plainly."""
        if self.partial or not all(
            self._blocks.is_plain(window.operand, len(self.extents)) for window in self.windows
        ):
            return frozenset()
        seen = [axis for axis in range(len(self.extents)) if axis not in self.hidden]
        return frozenset(range(len(self.extents))) - {seen[k] for k in self._memo.axes if k < len(seen)}

    def _ids_at_end(self) -> Ids:
        return tuple((segments[-1][1],) * 2 for segments in self.segments)

    def _bind(self) -> None:
        frame: dict[Any, Bound] = {}
        windows, partial = [], []
        tables = iter(self.tables)
        for var, operand in zip(self.kernel.jaxpr.invars, self.kernel.operands, strict=True):
            role = {"prefetch": "in"}.get(operand.role, operand.role)
            if not jaxapi.is_ref(var.aval):
                continue
            buffer = self.run.buffer(var, functools.partial(flow_buffers.buffer_of, operand.name, var.aval, role))
            frame[var] = Bound(buffer=buffer)
            table = next(tables, None) if operand.role == "prefetch" else None
            if table is not None and table.shape == buffer.shape:
                self.run.tables[buffer.number] = table
            code = self._at_first(operand)
            flow_buffers.allocate(self.run, buffer, code)
            if buffer.role == "semaphore" and operand.role != "scratch":
                self.run.state.counts.pop(buffer.number)
            if operand.role == "out" and operand.mapping is not None and buffer.role == "out":
                windows.append(Window(buffer, operand, self.axes(operand), code))
            if flow_padding.is_partial(operand):
                partial.append((buffer, operand))
                self.run.padded[buffer.number] = flow_padding.kind(operand, self.fresh)
            elif self.fresh and flow_padding.is_whole(operand):
                self.run.padded[buffer.number] = "padding"
                self.run.ending.add(buffer.number)
        self.windows, self.partial, self.frame = tuple(windows), tuple(partial), frame

    def _at_first(self, operand: Operand) -> int:
        """What a buffer holds before the first step."""
        if operand.role in ("in", "prefetch"):
            return cells.MEANT
        if operand.role == "scratch":
            return cells.UNWRITTEN
        number = [other for other in self.kernel.operands if other.role == "out"].index(operand)
        known = operand.mapping is not None and operand.block is not None and None not in operand.block
        aliased = any(out == number for _, out in self.kernel.aliases)
        return cells.UNWRITTEN if known and not aliased else cells.MAYBE

    def axes(self, operand: Operand) -> frozenset[int]:
        """The grid axes that an operand's window depends on."""
        if operand.space is not None and not operand.space.windowed:
            return frozenset()
        jaxpr = jaxapi.open_jaxpr(operand.mapping.index_map_jaxpr)
        known: dict[Any, frozenset[int]] = {
            var: frozenset({axis}) for axis, var in enumerate(jaxpr.invars[: len(self.extents)])
        }
        every = frozenset(range(len(self.extents)))
        for eqn in jaxpr.eqns:
            used = frozenset().union(*(known.get(a, frozenset()) for a in eqn.invars if not jaxapi.is_literal(a)))
            if any(jaxapi.is_ref(a.aval) for a in eqn.invars):
                used = every
            known.update(dict.fromkeys(eqn.outvars, used))
        return frozenset().union(*(known.get(a, frozenset()) for a in jaxpr.outvars if not jaxapi.is_literal(a)))

    def _axis(self, axis: int, ids: Ids) -> None:
        if axis == len(self.extents):
            self._step(ids)
            return
        entered: Settled | None = None
        segments = self.segments[axis]
        for turn, (low, high) in enumerate(segments):
            if low == high:
                self._tick(axis, (low, high), ids, first=turn == 0)
            else:
                self._between(axis, (low, high), ids)
            left = self._settled() if axis in self._alike else None
            if left is not None and entered is not None and left.same(entered):
                self._done += (len(segments) - turn - 1) * math.prod(map(len, self.segments[axis + 1 :]))
                return  # from here on each turn does what the last one did
            entered = left

    def _settled(self) -> Settled | None:
        """What the next turn starts from; none where more than that tells turns apart."""
        state = self.run.state
        if self._spoiled or state.counts or state.flights or state.origins or self.run.naming is not None:
            return None
        return Settled(dict(state.cells), len(self.run.claims), len(self.run.tables))

    def _tick(self, axis: int, number: tuple[int, int], ids: Ids, first: bool) -> None:
        if not first:
            self._ticked = axis
        self._axis(axis + 1, (*ids, number))

    def _between(self, axis: int, number: tuple[int, int], ids: Ids) -> None:
        """A run of steps; on the last axis in phases, each for all the steps that many apart."""
        every = self.phases if axis == len(self.extents) - 1 else 1

        def turn(carry: list[Bound]) -> list[Bound]:
            for k in range(every):
                steps = Stepped.of(number[0] + k, number[1] - every + 1 + k, every)
                assert steps is not None
                self._tick(axis, steps, ids, first=False)
            return carry

        flow_loops.settle(self.run, [], [], turn)

    def _step(self, ids: Ids) -> None:
        run = self.run
        before = flow_segments.before(ids, self._ticked, self.segments) if self._ticked is not None else None
        for window in self.windows:
            self._arrive(window, ids, before)
        for buffer, operand in self.partial:
            run.state.cells[buffer.number] = flow_padding.in_window(operand, self._blocks.at(operand, ids))
        if self.fresh:
            for buffer in run.buffers.values():
                if buffer.role == "scratch":
                    flow_buffers.allocate(run, buffer, cells.UNWRITTEN)
        run.ids = tuple(number for axis, number in enumerate(ids) if axis not in self.hidden)
        run.extents = tuple(extent for axis, extent in enumerate(self.extents) if axis not in self.hidden)
        self._ticked = None
        if run.naming is None:
            self._memo.walk(run, self.kernel.jaxpr, dict(self.frame))
        else:
            steps = tuple(map(exact, ids))
            run.naming.here = None if None in steps else steps
            run.walk(run.plans.of(self.kernel.jaxpr), dict(self.frame))
        for window in self.windows:
            if self.fresh and not self._is_shared(window):
                self._finish(window, ids)
        self._done += 1
        if self.steps and self._is_hopeless():
            raise NotFollowed("too long")

    def _is_hopeless(self) -> bool:
        """Whether what the steps so far took is far too much for all of them."""
        spent, whole = self.run.spent, self.run.spent + self.run.budget
        return spent * _TELLING >= whole and spent * self.steps > _HOPELESS * whole * self._done

    def _is_shared(self, window: Window) -> bool:
        """Whether every program of a GPU has the whole of an output: then it holds what any of them stores."""
        return self.fresh and not window.axes

    def _arrive(self, window: Window, ids: Ids, before: Ids | None) -> None:
        """The output's block for this step: the one of the step before, or another, whose window holds garbage."""
        state = self.run.state
        if self.fresh:
            if not self._is_shared(window):
                state.cells[window.buffer.number] = window.keeps
            return
        if before is None or self._ticked is None:
            return
        moves = self._moves(window, ids, before)
        if moves is None:
            held = state.cells[window.buffer.number]
            state.cells[window.buffer.number] = cells.doubtful(cells.join(held, window.keeps))
        elif moves:
            self._finish(window, before)
            state.cells[window.buffer.number] = window.keeps

    def _moves(self, window: Window, ids: Ids, before: Ids) -> bool | None:
        assert self._ticked is not None
        turned = {
            axis
            for axis in range(self._ticked, len(ids))
            if axis == self._ticked or exact(ids[axis]) is None or ids[axis] != before[axis]
        }
        if not turned & window.axes:
            return False
        now, then = self._blocks.at(window.operand, ids), self._blocks.at(window.operand, before)
        pairs = list(zip(now, then, strict=True))
        if any(a is not None and b is not None and (a[1] < b[0] or b[1] < a[0]) for a, b in pairs):
            return True
        if all(exact(a) is not None and a == b for a, b in pairs):
            return False
        jaxpr = jaxapi.open_jaxpr(window.operand.mapping.index_map_jaxpr)
        direct = {jaxpr.invars.index(a) for a in jaxpr.outvars if not jaxapi.is_literal(a) and a in jaxpr.invars}
        return True if direct & turned else None

    def _finish(self, window: Window, ids: Ids) -> None:
        """A block is written back as it is."""
        held = self.run.state.cells[window.buffer.number]
        if cells.worst(held) < cells.SPOILED:
            self.meant.add(window.buffer.number)
            return
        self._spoiled = True
        index = self._blocks.at(window.operand, ids)
        inside = self._inside(window, index)
        if inside is None:
            self.meant.add(window.buffer.number)
            return
        part = held if isinstance(held, int) else held[tuple(slice(0, size) for size in inside)]
        if cells.least(part) < cells.SPOILED:
            self.meant.add(window.buffer.number)
        element = cells.first_garbage(part, window.buffer.shape)
        read = cells.worst(part) != cells.UNWRITTEN
        origin = self.run.state.origins.get(window.buffer.number) if read else None
        if element is not None and (origin is not None or not read):
            seen = tuple(number for axis, number in enumerate(ids) if axis not in self.hidden)
            by_any = self._is_shared(window)
            self.run.claims.append(Garbage(window.buffer, tuple(index), seen, element, origin, by_any))

    def _inside(self, window: Window, index: Sequence[Number]) -> list[int] | None:
        """How many elements along each axis of the block lie within the array; none where that is not known."""
        block, array = window.operand.block, window.operand.array
        assert block is not None and array is not None
        if window.operand.space is not None and not window.operand.space.windowed:
            return list(window.buffer.shape)
        found = []
        for number, dim, extent in zip(index, block, array, strict=True):
            if not isinstance(extent, int) or number is None:
                return None
            size = 1 if dim == "squeezed" else int(dim)  # type: ignore[arg-type]
            left = min(size, extent - number[1] * size)
            if left <= 0 or number[0] < 0:
                return None
            if dim != "squeezed":
                found.append(left)
        return found
