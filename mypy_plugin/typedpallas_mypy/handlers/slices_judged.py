"""Slices of a kernel's refs against the tiles of memory, from a launch that tells how each ref lies there.

The rule book judges slices in numbers. It is asked for many sizes: what it refutes for all of them is an error, what
it has nothing against for any is proved, and the rest is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, Final, Literal

from mypy import nodes as n

from typedpallas.dims import Size
from typedpallas.events import Known, RefFact, Slice, SlicePart
from typedpallas.records import record
from typedpallas.starts import proofs
from typedpallas.starts.bounds import bounds
from typedpallas.starts.terms import Term
from typedpallas_mypy import cases, config, report, trials, witness
from typedpallas_mypy.facts import Types
from typedpallas_mypy.forms import FREE, Case, Form, NeverRuns, is_simple, sizes
from typedpallas_mypy.handlers.body_tree import Body
from typedpallas_mypy.handlers.calls_uses import parts
from typedpallas_mypy.handlers.slices_noted import Noted, Taken, taken
from typedpallas_mypy.handlers.slices_reached import Reach
from typedpallas_mypy.trials import Trial

type Op = Literal["load", "store", "copy", "view"]


@record(frozen=True)
class Layout:
    """How a ref lies in memory."""

    memory: tuple[Size, ...]
    """The dims that its tiles see; 1 for one that a block squeezes away."""
    axes: tuple[int, ...]
    """Where each dim of the ref is among these."""
    rows: Size | None
    """The second-to-last extent of the whole array, for which the tiles are made."""
    scratch: bool = False

    def possible(self, rank: int) -> tuple[Layout, ...]:
        """This layout and what `jax.vmap` makes of it; none for an index of another rank."""
        if rank != len(self.axes):
            return ()
        if self.scratch or len(self.memory) > 1:
            return (self,)
        return (self, replace(self, memory=(Size.of(1), *self.memory), axes=(1,), rows=Size.of(f"{FREE}calls")))


@record(frozen=True)
class _Launch:
    layouts: Mapping[str, Layout]
    hinted: bool
    """Whether the launch itself promises what is proved."""


@record(frozen=True)
class _Known:
    """What was seen of a kernel so far: mypy reads bodies before launches, or after."""

    function: n.FuncDef
    slices: dict[int, Noted] = field(default_factory=dict)
    launches: dict[int, _Launch] = field(default_factory=dict)


_KNOWN: dict[int, _Known] = {}
_MOST_KNOWN: Final = 1024


def _known(function: n.FuncDef) -> _Known:
    found = _KNOWN.get(id(function))
    if found is None or found.function is not function:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        found = _KNOWN[id(function)] = _Known(function)
    return found


def note(api: Any, types: Types, ref: RefFact, node: n.Context, op: Literal["load", "store", "view"]) -> None:
    """Note an index of a ref, and judge it for every launch that was seen."""
    found = taken(api, types, ref, node, op) if config.targets() else None
    if found is not None:
        function, item = found
        known = _known(function)
        known.slices[id(node)] = item
        for launch in known.launches.values():
            _judge(api, known, item, launch)
        if trials.is_thorough() and not known.launches and not _is_handed_on(api.tree.defs, function):
            _list_open(api, item)


def _list_open(api: Any, item: Noted) -> None:
    """Say where a launch would be needed to tell how the ref lies in memory, if that matters."""
    shape = tuple(size for size in item.ref.shape or () if size is not None)
    if len(shape) == len(item.ref.shape or ()) and shape:
        layout = Layout(shape, tuple(range(len(shape))), shape[-2] if len(shape) > 1 else None)
        if trials.may_be_wrong(_Slices(item, layout, hinted=True).trials(_hasty(item), ())):
            report.unknown(
                api, item.node, "whether this slice is aligned hangs on a launch, and none is in this file"
            )


def _is_handed_on(node: Any, function: n.FuncDef) -> bool:
    """Whether a function is an argument of some call at or below a node, or decorated: then that may launch it."""
    if isinstance(node, n.CallExpr) and any(isinstance(a, n.NameExpr) and a.node is function for a in node.args):
        return True
    if isinstance(node, n.Decorator) and node.func is function:
        return True
    below = node if isinstance(node, list | tuple) else parts(node) if isinstance(node, n.Node) else ()
    return any(_is_handed_on(part, function) for part in below)


def _hasty(item: Noted) -> Op:
    """What an index is for, before anybody looks at what becomes of a view."""
    return "copy" if item.op == "view" else item.op


def launched(
    api: Any, function: n.FuncDef, place: n.Context, layouts: Callable[[], Mapping[str, Layout]], *, hinted: bool
) -> None:
    """Note a launch, and judge every index that was seen.

    Args:
        place: the launch.
        layouts: the layouts of the refs that are known, by name.
        hinted: whether the launch itself promises what is proved.
    """
    if config.targets():
        known = _known(function)
        launch = known.launches[id(place)] = _Launch(layouts(), hinted)
        for item in known.slices.values():
            _judge(api, known, item, launch)


def _judge(api: Any, known: _Known, item: Noted, launch: _Launch) -> None:
    layout = launch.layouts.get(item.ref.name)
    if layout is None:
        return
    slices = _Slices(item, layout, launch.hinted)
    if not trials.is_thorough() and not trials.may_refute(slices.trials(_hasty(item), ())):
        return
    reach = Reach(api, Body(known.function))
    op = reach.use(item.node) if item.op == "view" else item.op
    if op is not None:
        around = reach.around(item.node)
        places: dict[str, n.Context] = {"": item.node, "index": item.node.index}
        found = slices.trials(op, around or ())
        trials.judge_all(api, found, places, complete=slices.complete, compiled=around is not None)


class _Slices:
    """One index of a ref, for any sizes."""

    def __init__(self, item: Noted, layout: Layout, hinted: bool) -> None:
        self._item = item
        self._layouts = layout.possible(len(item.parts))
        self._hinted = hinted
        forms = [form for part in item.parts for form in (part.start, part.size) if form is not None]
        used = [size for form in forms for size in sizes(form)]
        used += layout.memory
        rows = [one.rows for one in self._layouts if one.rows is not None]
        self._names = {name for size in (*used, *rows) for name in size.names}
        self._constants = {size.const for size in (*used, *rows) if size.const is not None}
        self.complete = len(self._names) <= cases.MOST_NAMES and all(map(is_simple, used))
        """Whether the trials show all that the sizes can be."""

    def trials(self, op: Op, around: tuple[Form, ...]) -> Iterator[Trial]:
        """The slice for sizes that it may have; none with sizes for which a loop around it has no turns."""
        constants = {a + b for a in self._constants for b in (0, *self._constants)}
        for values in cases.cases(self._names, self._item.types.facts, constants):
            case = Case(values)
            try:
                for turn in around:
                    case.term(turn)
                events = [self._event(case, op, layout) for layout in self._layouts]
            except NeverRuns:
                yield Trial(None, values)
                continue
            for event in events:
                if event is not None:
                    yield Trial(event, values)

    def _event(self, case: Case, op: Op, layout: Layout) -> Slice | None:
        """The slice in numbers; none where it can't have these sizes."""
        ref = self._item.ref
        memory = [case.number(size) for size in layout.memory]
        rows = None if layout.rows is None else case.number(layout.rows)
        if any(extent < 1 for extent in (*memory, 1 if rows is None else rows)):
            return None
        parts = [SlicePart(axis=None, extent=extent, start=0, size=extent) for extent in memory]
        for axis, (one, place) in enumerate(zip(self._item.parts, layout.axes, strict=True)):
            part = self._part(case, axis, memory[place], one)
            if part is None:
                return None
            parts[place] = part
        return Slice(
            name=ref.name,
            op=op,
            space=ref.space,
            dtype=ref.dtype,
            parts=tuple(parts),
            rows=rows,
            scratch=layout.scratch,
            fixed=layout.scratch,
        )

    def _part(self, case: Case, axis: int, extent: int, one: Taken) -> SlicePart | None:
        if one.start is None or one.size is None:
            return SlicePart(axis=axis, extent=extent, start=0, size=extent)
        start, size = case.term(one.start), case.term(one.size)
        begin, length = start.const or 0, 1 if size.const is None else size.const
        if begin < 0 or not 0 < length <= extent - begin:
            return None
        return SlicePart(
            axis=axis,
            extent=extent,
            start=start.const,
            size=size.const,
            squeezed=one.squeezed,
            multiple=bounds(start, {}).multiple,
            sized=None if size.const is not None else self._tells(size),
            proves=self._tells(start),
            breaks=lambda divisor: witness.breaks(start, divisor),
        )

    def _tells(self, term: Term) -> Any:
        """Whether the compiler can tell that a number divides a term: by itself, or because the launch tells it."""
        promised = bounds(term, {}).multiple if self._hinted else 1

        def tells(divisor: int) -> Known:
            return "yes" if promised % divisor == 0 else proofs.proves(divisor, term)

        return tells
