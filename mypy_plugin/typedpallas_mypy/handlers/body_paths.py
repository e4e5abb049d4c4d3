"""Every path through a body, as far as branches and inner functions are written out: what is under way at each place.

A claim holds only if it holds on every path that reaches its place. Branches are taken and left as if they knew
nothing of each other, unless they ask the same question of values that do not change; so there are more paths here
than in life, and that only makes claims fewer. A loop is gone through once, from no knowledge of what its turns leave
behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from mypy import nodes as n

from typedpallas.dims import Size
from typedpallas_mypy.handlers import calls_uses
from typedpallas_mypy.handlers.body_counts import Counts, Op
from typedpallas_mypy.handlers.body_flights import End
from typedpallas_mypy.handlers.body_runs import LATER, is_loop, runs
from typedpallas_mypy.handlers.body_state import Key, Starved, State, Tally
from typedpallas_mypy.handlers.body_steps import Step, Steps, sign
from typedpallas_mypy.handlers.body_text import WHOLE, Given, Region, condition, region, words
from typedpallas_mypy.handlers.body_tree import Body
from typedpallas_mypy.handlers.calls_source import arguments, function_name

_STEPS: Final[tuple[Step, ...]] = ("first", "last")
_MOST_PATHS: Final = 64
_DEPTH: Final = 8
_BOUNDS: Final = 2
_NONE: Final = Size.of(0)


class TooManyPathsError(Exception):
    """More paths than are followed."""


class Paths:
    """All paths through the body of a function.

    Raises:
        TooManyPathsError: there are more than are followed.
    """

    def __init__(self, body: Body, counts: Counts) -> None:
        self.body = body
        self.counts = counts
        self._steps = Steps(counts.source)
        self.tallies: dict[tuple[n.Node, ...], Tally] = {}
        """By the place, and the calls of inner functions that lead there."""
        self._followed = counts.followed
        ranks: dict[n.Var, set[int]] = {}
        for op in counts.all_ops():
            ranks.setdefault(op.semaphore, set()).add(len(op.element.axes) if _is_exact(op.element) else -1)
        self._whole = {semaphore for semaphore, found in ranks.items() if -1 in found or len(found) > 1}
        self._given: Given = {}
        self._calls: list[n.CallExpr] = []
        self._returned: list[list[State]] = []
        self._looping: list[frozenset[n.Var]] = []
        self.ends = self._call(body.function.body, [State()])

    def key(self, op: Op) -> Key:
        """The semaphore that an operation counts on."""
        return op.semaphore, WHOLE if op.semaphore in self._whole else op.element

    # ---------------------------------------------------------------- statements

    def _call(self, block: n.Block, states: list[State]) -> list[State]:
        """A whole function: those that returned early go on together with the others."""
        if len(self._returned) >= _DEPTH:
            raise TooManyPathsError
        self._returned.append([])
        states = self._visit(block, states)
        return states + self._returned.pop()

    def _visit(self, node: Any, states: list[State]) -> list[State]:
        if len(states) > _MOST_PATHS:
            raise TooManyPathsError
        if isinstance(node, list | tuple):
            for part in node:
                states = self._visit(part, states)
            return states
        if not isinstance(node, n.Node) or not states or isinstance(node, (*LATER, n.FuncDef, n.LambdaExpr)):
            return states
        if isinstance(node, n.Statement):
            return self._statement(node, states)
        states = self._visit(calls_uses.parts(node), states)
        if isinstance(node, n.CallExpr):
            return self._called(node, states)
        if isinstance(node, n.IndexExpr):
            self._use(node, states)
        return states

    def _statement(self, node: n.Statement, states: list[State]) -> list[State]:
        if isinstance(node, n.AssignmentStmt):
            return self._visit([node.rvalue, node.lvalues], states)
        if isinstance(node, n.OperatorAssignmentStmt):
            return self._visit([node.rvalue, node.lvalue], states)
        if isinstance(node, n.ReturnStmt):
            self._returned[-1] += self._visit(node.expr, states)
            return []
        if isinstance(node, n.BreakStmt | n.ContinueStmt):
            self._returned[-1] += states
            return []
        if isinstance(node, n.RaiseStmt):
            return []
        if isinstance(node, n.IfStmt):
            return self._if(node, states)
        if isinstance(node, n.ForStmt | n.WhileStmt):
            states = self._visit(node.expr, states)
            turns = isinstance(node, n.ForStmt) and self._turns(node.expr)
            return self._visit(node.else_body, self._loop(node.body, states, turns))
        if isinstance(node, n.WithStmt):
            return self._with(node, states)
        if isinstance(node, n.Decorator):
            return self._decorated(node, states)
        return self._visit(calls_uses.parts(node), states)

    def _if(self, node: n.IfStmt, states: list[State]) -> list[State]:
        done: list[State] = []
        for test, block in zip(node.expr, node.body, strict=True):
            states = self._visit(test, states)
            taken, states = self._fork(test, states)
            done += self._visit(block, taken)
        return done + self._visit(node.else_body, states)

    def _fork(self, test: n.Expression, states: Iterable[State]) -> tuple[list[State], list[State]]:
        """The paths on which a test holds, and those on which it does not."""
        question, wanted = condition(test, self.counts.stable)
        sides: dict[bool, list[State]] = {True: [], False: []}
        holds = {step: self._steps.holds(test, step) for step in _STEPS}
        for state in states:
            for answer in (True, False):
                if state.answers.get(question, answer) is answer:
                    side = state.copied()
                    side.answers[question] = answer
                    side.steps = frozenset(step for step in state.steps if holds[step] is (answer is wanted))
                    sides[answer].append(side)
        return sides[wanted], sides[not wanted]

    def _with(self, node: n.WithStmt, states: list[State]) -> list[State]:
        begun = self.counts.blocks.get(node, [])
        states = self._visit(node.expr, states)
        for op in begun:
            self._do(op, states)
        early = len(self._returned[-1])
        states = self._visit(node.body, states)
        for op in begun:  # also on the way out by ``return``
            self._do(replace(op, act="wait"), states + self._returned[-1][early:], node)
        return states

    def _decorated(self, node: n.Decorator, states: list[State]) -> list[State]:
        """``@pl.when(test)`` runs a function at once or not at all, ``@pl.loop(...)`` as often as it says."""
        made = node.original_decorators
        call = made[0] if len(made) == 1 and isinstance(made[0], n.CallExpr) else None
        if call is None or not runs(call):
            return states
        states = self._visit(call.args, states)
        return self._run(call, node.func.body, states)

    def _run(self, call: n.CallExpr, block: n.Block, states: list[State]) -> list[State]:
        if runs(call) == "when":
            taken, left = self._fork(call.args[0], states)
            return self._call(block, taken) + left
        return self._loop(block, states, self._turns(call)) if runs(call) == "loop" else self._call(block, states)

    # ---------------------------------------------------------------- calls

    def _called(self, call: n.CallExpr, states: list[State]) -> list[State]:
        for op in self.counts.ops.get(call, ()):
            self._do(op, states)
        if isinstance(call.callee, n.CallExpr) and runs(call.callee) and len(call.args) == 1:
            block = self._block(call.args[0])
            return states if block is None else self._run(call.callee, block, states)
        if runs(call) == "scoped":
            block = self._block(call.args[0])
            return states if block is None else self._call(block, states)
        if is_loop(call):
            for argument in call.args:
                block = self._block(argument)
                states = states if block is None else self._loop(block, states, self._turns(call))
            return states
        block = self._block(call.callee)
        if block is None:
            return states
        outer, self._given = self._given, self._parameters(call, block)
        self._calls.append(call)
        states = self._call(block, states)
        self._calls.pop()
        self._given = outer
        return states

    def _parameters(self, call: n.CallExpr, block: n.Block) -> Given:
        """What the parameters of an inner function stand for in a call; only what is known where it is called."""
        function = self.body.parents[block]
        assert isinstance(function, n.FuncDef | n.LambdaExpr)
        given = arguments(call, tuple(argument.variable.name for argument in function.arguments)) or {}
        found = {a.variable: given[a.variable.name] for a in function.arguments if a.variable.name in given}
        return {v: e for v, e in found.items() if words(e, self.counts.stable) is not None}

    def _block(self, expression: n.Expression) -> n.Block | None:
        """The body of the inner function that an expression names, or is; not of one that only makes copies."""
        function: object = expression
        if isinstance(expression, n.NameExpr):
            function = expression.node
            if isinstance(function, n.Var):
                function = next(iter(self.counts.source.uses.values.get(function, ())), None)
        if not isinstance(function, n.FuncDef | n.LambdaExpr) or function in self.counts.makers:
            return None
        return function.body if function in self.body.parents else None

    def _turns(self, loop: n.Expression) -> bool:
        """Whether a loop surely has a turn: its bounds are there to read."""
        if not isinstance(loop, n.CallExpr) or not loop.args or len(loop.args) < len(loop.arg_kinds):
            return False
        name = function_name(loop).rpartition(".")[2]
        single = name == "range" and len(loop.args) == 1
        if name not in ("range", "loop", "fori_loop") or (len(loop.args) < _BOUNDS and not single):
            return False
        size = self.counts.source.size
        lower, upper = (Size.of(0), size(loop.args[0])) if single else (size(loop.args[0]), size(loop.args[1]))
        return lower is not None and upper is not None and sign(upper - lower) == 1

    def _loop(self, block: n.Block, states: list[State], turns: bool) -> list[State]:
        """One turn, from no knowledge of earlier ones; what it does not undo is unknown afterwards."""
        pools = self._operated(block)
        self._looping.append(pools)
        for state in states:
            state.flights.forget(pools)
            inner = state.copied()
            inner.steps = state.steps if turns else frozenset()
            inner.balance = {key: count for key, count in inner.balance.items() if key[0] not in pools}
            for end in self._call(block, [inner]):
                state.lost |= end.lost
                state.lost |= {key[0] for key, count in end.balance.items() if key[0] in pools and count != _NONE}
        self._looping.pop()
        return states

    def _operated(self, block: n.Block) -> frozenset[n.Var]:
        """The semaphores that something in a block counts on; inner functions may be called from there."""
        inside = {op.semaphore for op in self.counts.all_ops() if block in self.body.above(op.place)}
        called = any(
            isinstance(node, n.NameExpr) and self._block(node) is not None and block in self.body.above(node)
            for node in self.body.nodes
        )
        return frozenset(op.semaphore for op in self.counts.all_ops()) if called else frozenset(inside)

    # ---------------------------------------------------------------- what is done

    def _do(self, op: Op, states: Sequence[State], place: n.Node | None = None) -> None:
        if op.semaphore not in self._followed:
            return
        key = self.key(op)
        tally = self._tally(place or op.place)
        for state in states:
            tally.reach(state)
            there = state.balance.get(key, _NONE)
            if op.act in ("start", "signal"):
                use = state.flights.start(op, *self._ends(op)) if op.copy is not None else None
                tally.wrong += [] if use is None else [use]
                state.balance[key] = there + op.amount
                state.started.append(op)
                continue
            state.balance[key] = there - op.amount
            enough = sign(state.balance[key])
            looping = any(op.semaphore in pools for pools in self._looping)
            if enough == -1 and op.semaphore not in state.lost and not looping:
                tally.wrong.append(Starved(op, there))
            if op.act == "wait":
                state.flights.wait(op, nothing_left=enough in (0, -1))

    def _tally(self, place: n.Node) -> Tally:
        return self.tallies.setdefault((place, *self._calls), Tally())

    def _ends(self, op: Op) -> tuple[End, End]:
        """Source and target of a copy; what lies on another device is nobody's here."""
        copy = op.copy
        if copy is None:
            return None, None
        target = self.counts.part(copy.target, copy.given) if copy.arrives is None else None
        return self.counts.part(copy.source, copy.given), target

    def _use(self, access: n.IndexExpr, states: Sequence[State]) -> None:
        """A load or a store of a buffer, while copies are under way."""
        variable = access.base.node if isinstance(access.base, n.NameExpr) else None
        if not isinstance(variable, n.Var) or not any(state.flights for state in states):
            return
        how = self.body.indexed(access)
        if how not in ("load", "store", "update"):
            return
        where = region(access.index, self.counts.stable, self._given)
        tally = self._tally(access)
        for state in states:
            tally.reach(state)
            use = state.flights.use(variable, where, "load" if how == "load" else "store", access)
            if use is not None:
                tally.wrong.append(use)


def _is_exact(element: Region) -> bool:
    return all(axis is not None and axis.isdigit() for axis in element.axes)
