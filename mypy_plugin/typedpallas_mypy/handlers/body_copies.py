"""Copies in a kernel's body: started and never waited for, or their buffers used before the wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mypy import nodes as n

from typedpallas.events import CopyInUse, RefFact, SemaphoreLeft
from typedpallas.records import record
from typedpallas_mypy.handlers.body_tree import Body
from typedpallas_mypy.handlers.calls_source import arguments, function_name

type Found = tuple[SemaphoreLeft | CopyInUse, n.Context]

_MAKES: Final = ("make_async_copy", "async_copy")
_STARTED: Final = "async_copy"
_ORDER: Final = ("src_ref", "dst_ref", "sem")
_NAMES: Final = {"src": "src_ref", "dst": "dst_ref"}
_KNOWN: Final = ("jax.", "typedpallas.", "builtins.", "functools.", "math.", "numpy.")


@record(frozen=True)
class _Copy:
    call: n.CallExpr
    source: n.Expression
    target: n.Expression
    semaphore: n.Expression
    started: bool


def events(body: Body, refs: tuple[RefFact, ...]) -> Iterator[Found]:
    """What surely goes wrong with the copies of a kernel."""
    copies = [copy for node in body.nodes if isinstance(node, n.CallExpr) and (copy := _copy(node)) is not None]
    if copies:
        yield from _never_waited(body, refs, copies)
        yield from _used_early(body, copies)


def _copy(call: n.CallExpr) -> _Copy | None:
    name = function_name(call)
    made = name.rpartition(".")[2]
    given = arguments(call, _ORDER) if made in _MAKES and name.startswith(("jax.", "typedpallas.")) else None
    named = {_NAMES.get(key, key): value for key, value in (given or {}).items()}
    if not all(key in named for key in _ORDER):
        return None
    return _Copy(call, named["src_ref"], named["dst_ref"], named["sem"], made == _STARTED)


def _never_waited(body: Body, refs: tuple[RefFact, ...], copies: Sequence[_Copy]) -> Iterator[Found]:
    """Copies on the kernel's own semaphores, where the word "wait" is nowhere, and nobody else could say it."""
    words = [node.name for node in body.nodes if isinstance(node, n.MemberExpr | n.NameExpr)]
    started = "start" in words or any(copy.started for copy in copies)
    if not started or any("wait" in word for word in words) or not _is_closed(body):
        return
    own = {ref.name for ref in refs if ref.direction == "scratch" and ref.space is not None and not ref.space.data}
    told: set[str] = set()
    for copy in copies:
        semaphore = _named(copy.semaphore)
        if semaphore is None or semaphore not in own or semaphore in told:
            continue
        told.add(semaphore)
        yield (
            SemaphoreLeft(
                semaphore=semaphore, counts="bytes", left=None, source=_text(copy.source), target=_text(copy.target)
            ),
            copy.call,
        )


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


def _used_early(body: Body, copies: Sequence[_Copy]) -> Iterator[Found]:
    """Whole buffers that are used between a copy's start and its wait, in one straight list of statements."""
    for copy in copies:
        bound = body.parents[copy.call]
        variable = _variable(bound)
        block = body.parents.get(bound)
        if variable is None or not isinstance(block, n.Block) or not _is_whole(copy):
            continue
        assert isinstance(bound, n.AssignmentStmt)
        steps = block.body
        start: n.Statement | None = (
            bound if copy.started else next((s for s in steps if _calls(s, variable, "start")), None)
        )
        wait = next((s for s in steps if _calls(s, variable, "wait")), None)
        if start is None or wait is None or not steps.index(bound) <= steps.index(start) < steps.index(wait):
            continue
        between = steps[steps.index(start) + 1 : steps.index(wait)]
        if all(isinstance(s, n.AssignmentStmt | n.OperatorAssignmentStmt | n.ExpressionStmt) for s in between):
            yield from _uses(body, copy, between)


def _variable(bound: n.Node) -> n.Var | None:
    if not isinstance(bound, n.AssignmentStmt) or len(bound.lvalues) != 1:
        return None
    target = bound.lvalues[0]
    return target.node if isinstance(target, n.NameExpr) and isinstance(target.node, n.Var) else None


def _is_whole(copy: _Copy) -> bool:
    return isinstance(copy.source, n.NameExpr) and isinstance(copy.target, n.NameExpr)


def _calls(statement: n.Statement, variable: n.Var, method: str) -> bool:
    """Whether a statement is ``variable.method(...)``."""
    call = statement.expr if isinstance(statement, n.ExpressionStmt) else None
    callee = call.callee if isinstance(call, n.CallExpr) else None
    return (
        isinstance(callee, n.MemberExpr)
        and callee.name == method
        and isinstance(callee.expr, n.NameExpr)
        and callee.expr.node is variable
    )


def _uses(body: Body, copy: _Copy, between: Sequence[n.Statement]) -> Iterator[Found]:
    """The first use of either end; nothing where something in between may wait."""
    inside = [node for node in body.nodes if any(_below(body, node, statement) for statement in between)]
    if any("wait" in node.name for node in inside if isinstance(node, n.MemberExpr | n.NameExpr)):
        return
    for end, side in ((copy.target, "target"), (copy.source, "source")):
        variable = end.node if isinstance(end, n.NameExpr) else None
        mentions = body.mentions(variable) if isinstance(variable, n.Var) else ()
        for mention in mentions:
            if mention.node not in inside or mention.use not in ("load", "store", "update"):
                continue
            if side == "source" and mention.use == "load":
                continue
            assert isinstance(mention.whole, n.Context)
            yield (
                CopyInUse(
                    how="load" if mention.use == "load" else "store",
                    buffer=mention.node.name,
                    side="target" if side == "target" else "source",
                    source=_text(copy.source),
                    target=_text(copy.target),
                    semaphore=_named(copy.semaphore) or "the semaphore",
                ),
                mention.whole,
            )
            return


def _below(body: Body, node: n.Node, top: n.Node) -> bool:
    at: n.Node | None = node
    while at is not None and at is not top:
        at = body.parents.get(at)
    return at is top


def _named(expression: n.Expression) -> str | None:
    """The ref that an expression is or views: ``done`` of ``done.at[0]``."""
    while isinstance(expression, n.IndexExpr | n.MemberExpr):
        expression = expression.base if isinstance(expression, n.IndexExpr) else expression.expr
    return expression.name if isinstance(expression, n.NameExpr) else None


def _text(expression: n.Expression) -> str:
    """How messages write one end of a copy."""
    name = _named(expression) or "a buffer"
    return name if isinstance(expression, n.NameExpr) else f"{name}.at[...]"
