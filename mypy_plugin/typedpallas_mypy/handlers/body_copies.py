"""Copies and signals in a kernel's body: never waited for, waited for twice, or their buffers used meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final, Literal

from mypy import nodes as n

from typedpallas import tpu
from typedpallas.dims import Size
from typedpallas.events import CopyInUse, RefFact, SemaphoreLeft, SemaphoreStarved
from typedpallas_mypy.handlers import scoped
from typedpallas_mypy.handlers.body_counts import Counts, Op
from typedpallas_mypy.handlers.body_flights import Flight, Use
from typedpallas_mypy.handlers.body_made import Copy, copy_made
from typedpallas_mypy.handlers.body_paths import Paths, TooManyPathsError
from typedpallas_mypy.handlers.body_state import Key, Starved
from typedpallas_mypy.handlers.body_steps import sign
from typedpallas_mypy.handlers.body_tree import Body
from typedpallas_mypy.handlers.calls_source import Source

type Wrong = SemaphoreLeft | SemaphoreStarved | CopyInUse
type Claim = tuple[Op, Wrong, n.Context]
type Found = tuple[Wrong, n.Context]

_KNOWN: Final = ("jax.", "typedpallas.", "builtins.", "functools.", "math.", "numpy.")
_COUNTING: Final = (tpu.DMA, tpu.REGULAR)
"""Semaphores of the kernel alone; barriers count what others do."""
_NONE: Final = Size.of(0)


def events(body: Body, source: Source, refs: tuple[RefFact, ...]) -> Iterator[Found]:
    """What surely goes wrong with the copies and semaphores of a kernel."""
    own = {
        variable
        for ref in refs
        if ref.direction == "scratch" and ref.space in _COUNTING
        if (variable := body.parameter(ref.name)) is not None
    }
    own |= set(_scoped(body, source))
    counts = Counts(body, source, frozenset(own))
    told: set[n.Var] = set()
    for event, place, semaphore in _on_paths(body, counts):
        told.add(semaphore)
        yield event, place
    yield from _nowhere_waited(body, counts, own - counts.followed - told)


def _scoped(body: Body, source: Source) -> Iterator[n.Var]:
    """The semaphores that the body makes for the length of an inner function."""
    for node in body.nodes:
        call: n.Node = node
        function: n.Node | None = None
        if isinstance(node, n.Decorator):
            call, function = next(iter(node.original_decorators), node), node.func
        elif isinstance(node, n.CallExpr) and node.args:
            first = node.args[0]
            function = first.node if isinstance(first, n.NameExpr) else first
        if isinstance(call, n.CallExpr) and isinstance(function, n.FuncDef | n.LambdaExpr):
            for variable, expression in scoped.scratch(call, function).items():
                if scoped.semaphore(source, expression) in _COUNTING:
                    yield variable


def _on_paths(body: Body, counts: Counts) -> Iterator[tuple[Wrong, n.Context, n.Var]]:
    """What is wrong on every path that reaches a place; one error for each semaphore."""
    if not counts.followed or not any(op.semaphore in counts.followed for op in counts.all_ops()):
        return
    try:
        paths = Paths(body, counts)
    except TooManyPathsError:
        return
    told: set[n.Var] = set()
    for op, event, place in chain(_starvations(paths), _leaks(paths), _without_waits(paths, counts), _uses(paths)):
        if op.semaphore not in told:
            told.add(op.semaphore)
            yield event, place, op.semaphore


def _always_wrong(paths: Paths) -> Iterator[Use | Starved]:
    """What is wrong on every path that reaches its place, in the order of the source."""
    places = sorted(paths.tallies.items(), key=lambda item: _line(item[0][0]))
    yield from (tally.wrong[0] for _, tally in places if tally.always)


def _starvations(paths: Paths) -> Iterator[Claim]:
    for wrong in _always_wrong(paths):
        if isinstance(wrong, Starved) and _never_more(paths, paths.key(wrong.op)):
            event = _starved(wrong, wrong.op)
            if event.counts == "bytes" or event.wanted is not None:
                yield wrong.op, event, wrong.op.place


def _leaks(paths: Paths) -> Iterator[Claim]:
    for op in _left(paths):
        event = _leak(paths, op)
        if event.counts == "bytes" or event.left is not None:
            yield op, event, op.place


def _without_waits(paths: Paths, counts: Counts) -> Iterator[Claim]:
    """Copies that a step surely starts, in loops too, on semaphores on which nobody waits."""
    waited = {op.semaphore for op in counts.all_ops() if op.act == "wait"} | {
        op.semaphore for ops in counts.blocks.values() for op in ops
    }
    reached = {places[0] for places, tally in paths.tallies.items() if tally.surely}
    for op in counts.all_ops():
        alone = op.semaphore in counts.followed - waited
        if op.act == "start" and alone and op.place in reached:
            yield op, _left_over(op, None), op.place


def _uses(paths: Paths) -> Iterator[Claim]:
    """Buffers used too early. Where nobody waits at all that is what is said."""
    for wrong in _always_wrong(paths):
        if isinstance(wrong, Use):
            assert isinstance(wrong.place, n.Context)
            yield wrong.flight.op, _in_use(wrong), wrong.place


def _line(node: n.Node) -> tuple[int, int]:
    return (node.line, node.column) if isinstance(node, n.Context) else (0, 0)


# ---------------------------------------------------------------------- claims


def _never_more(paths: Paths, key: Key) -> bool:
    """Whether no step of a grid can leave anything on a semaphore for the next one."""
    if any(key[0] in end.lost for end in paths.ends):
        return False
    return all(sign(end.balance.get(key, _NONE)) in (0, -1) for end in paths.ends)


def _left(paths: Paths) -> Iterator[Op]:
    """Starts that some step surely makes, after which on every path something is left that no other takes away."""
    seen: set[n.Node] = set()
    for end in (end for end in paths.ends if end.steps):
        for op in end.started:
            key = paths.key(op)
            if op.place in seen:
                continue
            seen.add(op.place)
            signs = [(sign(e.balance.get(key, _NONE)), op in e.started) for e in paths.ends]
            lost = any(op.semaphore in e.lost for e in paths.ends)
            if not lost and all(left == 1 if started else left in (0, 1) for left, started in signs):
                yield op


def _leak(paths: Paths, op: Op) -> SemaphoreLeft:
    left = min((e.balance[paths.key(op)] for e in paths.ends if op in e.started), key=lambda size: size.const or 0)
    return _left_over(op, left.const)


def _left_over(op: Op, left: int | None) -> SemaphoreLeft:
    copy = op.copy
    return SemaphoreLeft(
        semaphore=_semaphore(op),
        counts="bytes" if copy is not None else "signals",
        left=left,
        source=_text(copy, "source") if copy is not None else None,
        target=_text(copy, "target") if copy is not None else None,
    )


def _starved(claim: Starved, op: Op) -> SemaphoreStarved:
    exact = not any(name.startswith("#") for name in (op.amount + claim.there).names)
    return SemaphoreStarved(
        semaphore=_semaphore(op),
        counts="bytes" if op.copy is not None else "signals",
        wanted=_number(op.amount) if exact else None,
        there=_number(claim.there) if exact or claim.there == _NONE else None,
    )


def _number(size: Size) -> Size | int:
    return size if size.const is None else size.const


def _in_use(use: Use) -> CopyInUse:
    flight, copy = use.flight, use.flight.op.copy
    assert copy is not None
    end = flight.source if use.side == "source" else flight.target
    assert end is not None
    return CopyInUse(
        how=use.how,
        buffer=end[0].name,
        side=use.side,
        source=_text(copy, "source"),
        target=_text(copy, "target"),
        semaphore=_semaphore(flight.op),
        other=None if use.other is None else _pair(use.other),
    )


def _pair(flight: Flight) -> str:
    copy = flight.op.copy
    return "" if copy is None else f"{_text(copy, 'source')} -> {_text(copy, 'target')}"


# ---------------------------------------------------------------------- copies in lists


def _nowhere_waited(body: Body, counts: Counts, own: set[n.Var]) -> Iterator[Found]:
    """Copies on the kernel's own semaphores, where the word "wait" is nowhere, and nobody else could say it."""
    copies = [c for node in body.nodes if isinstance(node, n.CallExpr) and (c := copy_made(node)) is not None]
    words = [node.name for node in body.nodes if isinstance(node, n.MemberExpr | n.NameExpr)]
    started = any(_starts(node) and not _in_a_branch(body, node) for node in body.nodes)
    scoped = any(copy.call in [op.place for ops in counts.blocks.values() for op in ops] for copy in copies)
    if not started or scoped or any("wait" in word for word in words) or not _is_closed(body):
        return
    told: set[n.Var] = set()
    for copy in copies:
        semaphore = _named(copy.semaphore)
        if semaphore is None or semaphore not in own or semaphore in told:
            continue
        told.add(semaphore)
        event = SemaphoreLeft(
            semaphore=semaphore.name,
            counts="bytes",
            left=None,
            source=_text(copy, "source"),
            target=_text(copy, "target"),
        )
        yield event, copy.call


def _starts(node: n.Node) -> bool:
    if isinstance(node, n.CallExpr) and (copy := copy_made(node)) is not None:
        return copy.started
    return isinstance(node, n.MemberExpr) and node.name == "start"


def _in_a_branch(body: Body, node: n.Node) -> bool:
    """Whether a node may never be reached."""
    above = [body.parents.get(node), *body.above(node)]
    return any(isinstance(a, n.IfStmt | n.ConditionalExpr | n.Decorator | n.LambdaExpr) for a in above)


def _is_closed(body: Body) -> bool:
    """Whether every function that is called is a library's, or written in the kernel itself."""
    own = {node for node in body.nodes if isinstance(node, n.FuncDef)}
    for node in body.nodes:
        if not isinstance(node, n.CallExpr):
            continue
        callee = node.callee
        if isinstance(callee, n.NameExpr) and isinstance(callee.node, n.FuncDef) and callee.node in own:
            continue
        if isinstance(callee, n.RefExpr) and callee.fullname.startswith(_KNOWN):
            continue
        named = isinstance(callee, n.RefExpr) and bool(callee.fullname)  # of another module: it may wait
        if named or not isinstance(callee, n.MemberExpr | n.IndexExpr | n.CallExpr):
            return False
    return True


# ---------------------------------------------------------------------- names for messages


def _base(expression: n.Expression) -> n.Expression:
    while isinstance(expression, n.IndexExpr | n.MemberExpr):
        expression = expression.base if isinstance(expression, n.IndexExpr) else expression.expr
    return expression


def _named(expression: n.Expression) -> n.Var | None:
    """The ref that an expression is or views: ``done`` of ``done.at[0]``."""
    base = _base(expression)
    return base.node if isinstance(base, n.NameExpr) and isinstance(base.node, n.Var) else None


def _text(copy: Copy, end: Literal["source", "target"]) -> str:
    """How messages write one end of a copy: ``x``, ``x.at[0]``, ``x.at[...]`` where more is selected."""
    expression = copy.source if end == "source" else copy.target
    base = _base(expression)
    name = base.name if isinstance(base, n.NameExpr) else "a buffer"
    if isinstance(base, n.NameExpr) and base.node is not None and base.node in copy.given:
        given = _base(copy.given[base.node])
        name = given.name if isinstance(given, n.NameExpr) else "a buffer"
    return name if base is expression else f"{name}.at[{_index(copy, expression)}]"


def _index(copy: Copy, view: n.Expression) -> str:
    index = view.index if isinstance(view, n.IndexExpr) else view
    if isinstance(index, n.NameExpr) and index.node is not None:
        index = copy.given.get(index.node, index)
    if isinstance(index, n.IntExpr):
        return str(index.value)
    return index.name if isinstance(index, n.NameExpr) else "..."


def _semaphore(op: Op) -> str:
    """``done``, ``done[1]``, or the name of the array where the element cannot be told."""
    axes = [axis for axis in op.element.axes if axis is not None and axis.isdigit()]
    exact = bool(axes) and len(axes) == len(op.element.axes)
    return f"{op.semaphore.name}[{', '.join(axes)}]" if exact else op.semaphore.name
