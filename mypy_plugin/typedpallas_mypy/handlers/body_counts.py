"""What a body does to its semaphores: the copies that it starts and waits for, the signals that it gives and takes.

A copy is followed from where it is made to each `start()` and `wait()`: through a variable that is bound once, and
through a small function that only makes it. Where it goes anywhere else (a container, another function, a result),
anybody may wait for it, and its semaphore is not followed at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from mypy import nodes as n

from typedpallas import dtypes
from typedpallas.dims import Size
from typedpallas.events import RefFact
from typedpallas.records import record
from typedpallas_mypy.handlers.body_made import Copy, copy_made
from typedpallas_mypy.handlers.body_runs import Runs, bound_to
from typedpallas_mypy.handlers.body_text import UNKNOWN, WHOLE, Given, Region, region, words
from typedpallas_mypy.handlers.body_tree import Body
from typedpallas_mypy.handlers.calls_source import Source, arguments, function_name

type Act = Literal["start", "wait", "signal", "take"]

_WAITS: Final = ("wait", "wait_send")
_LOOKS: Final = ("semaphore_read",)
_SIGNALS: Final[dict[str, tuple[Act, str]]] = {
    "semaphore_signal": ("signal", "inc"),
    "semaphore_wait": ("take", "value"),
}


@record(frozen=True)
class Op:
    """Something that a call does to a semaphore of the kernel."""

    act: Act
    semaphore: n.Var
    element: Region
    amount: Size
    """Bytes, or signals. Names that begin with ``#`` stand for what is not known."""
    place: n.CallExpr
    copy: Copy | None = None


class Counts:
    """All that a body does to the semaphores in ``own``, by the call that does it."""

    def __init__(self, body: Body, source: Source, own: frozenset[n.Var]) -> None:
        self.body = body
        self.source = source
        self.ops: dict[n.Node, list[Op]] = {}
        self.blocks: dict[n.WithStmt, list[Op]] = {}
        """Copies under way for the length of a ``with`` block: their starts."""
        self.makers: set[n.Node] = set()
        """Small functions that only make a copy."""
        self._own = own
        self._escaped: set[n.Var] = set()
        self._understood: set[n.Node] = set()
        self._runs = Runs(body, self.stable)
        self._varying = frozenset(self._of_functions_called_often())
        for node in body.nodes:
            if isinstance(node, n.CallExpr):
                self._read(node)
        self._look_for_others()

    @property
    def followed(self) -> frozenset[n.Var]:
        """The semaphores of which everything is in sight."""
        return self._own - self._escaped

    def stable(self, variable: n.Var) -> bool:
        """Whether a variable is bound once: it keeps its value while a body, or one turn of a loop, runs."""
        return len(self.source.uses.values.get(variable, ())) <= 1 and variable not in self._varying

    def _of_functions_called_often(self) -> Iterator[n.Var]:
        """The variables of inner functions that are named in several places: each call gives them other values."""
        for function in self.body.nodes:
            if not isinstance(function, n.FuncDef | n.LambdaExpr):
                continue
            name = function if isinstance(function, n.FuncDef) else bound_to(self.body.parents[function], function)
            if sum(isinstance(node, n.NameExpr) and node.node is name for node in self.body.nodes) > 1:
                inside = (node for node in self.body.nodes if function in self.body.above(node))
                yield from (argument.variable for argument in function.arguments)
                names = (node for node in inside if isinstance(node, n.NameExpr) and node.is_new_def)
                yield from (name.node for name in names if isinstance(name.node, n.Var))

    def all_ops(self) -> Iterator[Op]:
        """Every operation, in the order of the source."""
        for ops in self.ops.values():
            yield from ops
        for ops in self.blocks.values():
            yield from ops

    # ---------------------------------------------------------------- reading calls

    def _read(self, call: n.CallExpr) -> None:
        copy = copy_made(call)
        if copy is not None:
            self._copy(copy)
            return
        name = function_name(call)
        act = name.rpartition(".")[2] if name.startswith(("jax.", "typedpallas.")) else ""
        if act in _SIGNALS:
            self._signal(call, *_SIGNALS[act])
        elif act in _LOOKS:
            self._understand(call.args[0] if call.args else None)

    def _signal(self, call: n.CallExpr, act: Act, number: str) -> None:
        given = arguments(call, ("sem_or_view", number))
        semaphore = given.get("sem_or_view") if given is not None else None
        if given is None or semaphore is None or len(given) > (2 if number in given else 1):
            return  # another device or core takes part, or nothing is taken away: not understood
        count = self.source.size(given[number]) if number in given else Size.of(1)
        if count is None:
            text = words(given[number], self.stable)
            count = Size.of(f"#{text}" if text is not None else f"#{id(call)}")
        self._do(act, semaphore, {}, count, call, None)

    def _copy(self, copy: Copy) -> None:
        above = self.body.parents[copy.call]
        self._understand(copy.semaphore)
        if function_name(copy.call).rpartition(".")[2] != "copy":
            seen = self._follow(copy, copy.call)
        elif seen := isinstance(above, n.WithStmt):
            self._do("start", copy.semaphore, {}, self._bytes(copy), copy.call, copy, above)
        if not seen:
            self._escape(copy)

    def _follow(self, copy: Copy, value: n.Expression) -> bool:
        """Note each start and wait of the copy that an expression is; false where it goes out of sight."""
        above = self.body.parents[value]
        if copy.started and isinstance(value, n.CallExpr):
            if isinstance(above, n.ReturnStmt):
                return self._returned(copy, above)
            self._act("start", copy, value)
        if isinstance(above, n.ExpressionStmt):
            return True
        if isinstance(above, n.MemberExpr):
            return self._method(copy, above)
        if isinstance(above, n.ReturnStmt):
            return self._returned(copy, above)
        variable = bound_to(above, value)
        if variable is None or not self.stable(variable):
            return False
        return all(self._follow(copy, mention) for mention in self.body.names(variable, above))

    def _method(self, copy: Copy, member: n.MemberExpr) -> bool:
        call = self.body.parents[member]
        if not isinstance(call, n.CallExpr) or call.callee is not member:
            return False
        if member.name == "start":
            self._act("start", copy, call)
        elif member.name in _WAITS:
            self._act("wait", copy, call)
        return member.name in ("start", "wait_recv", *_WAITS)

    def _returned(self, copy: Copy, statement: n.ReturnStmt) -> bool:
        """A function that does nothing but make the copy: every call of it is the copy."""
        function = self.body.parents[self.body.parents[statement]]
        if not isinstance(function, n.FuncDef | n.LambdaExpr) or len(function.body.body) != 1:
            return False
        if function is self.body.function:
            return False
        above = self.body.parents[function]
        name: n.SymbolNode | None = function if isinstance(function, n.FuncDef) else None
        if isinstance(function, n.LambdaExpr):
            name = bound_to(above, function)
            if not isinstance(name, n.Var) or not self.stable(name):
                return False
        if name is None or isinstance(above, n.Decorator) or copy.given:
            return False
        self.makers.add(function)
        return all(self._made_by(copy, function, mention) for mention in self.body.names(name, above))

    def _made_by(self, copy: Copy, function: n.FuncItem, mention: n.NameExpr) -> bool:
        call = self.body.parents[mention]
        if not isinstance(call, n.CallExpr) or call.callee is not mention:
            return False
        names = tuple(argument.variable.name for argument in function.arguments)
        given = arguments(call, names)
        if given is None or len(given) != len(names):
            return False
        values: Given = {argument.variable: given[argument.variable.name] for argument in function.arguments}
        return self._follow(replace(copy, given=values), call)

    # ---------------------------------------------------------------- noting

    def _act(self, act: Act, copy: Copy, place: n.CallExpr) -> None:
        self._do(act, copy.semaphore, copy.given, self._bytes(copy), place, copy)

    def _do(
        self,
        act: Act,
        semaphore: n.Expression,
        given: Given,
        amount: Size,
        place: n.CallExpr,
        copy: Copy | None,
        block: n.WithStmt | None = None,
    ) -> None:
        self._understand(semaphore)
        found = self.part(semaphore, given)
        if found is None or found[0] not in self._own:
            return
        op = Op(act, found[0], found[1], amount, place, copy)
        if block is not None:
            self.blocks.setdefault(block, []).append(op)
        else:
            self.ops.setdefault(place, []).append(op)
        if not all(map(self._runs.in_sight, self.body.above(place))):
            self._escaped.add(op.semaphore)

    def part(self, expression: n.Expression, given: Given) -> tuple[n.Var, Region] | None:
        """The variable and the part of it that an expression names: ``done``, ``done.at[1]``."""
        where = WHOLE
        if isinstance(expression, n.IndexExpr):
            if not isinstance(expression.base, n.MemberExpr) or expression.base.name != "at":
                return None
            where = region(expression.index, self.stable, given)
            expression = expression.base.expr
        variable = expression.node if isinstance(expression, n.NameExpr) else None
        if variable is not None and variable in given:
            inner = self.part(given[variable], {})
            return inner if inner is None or where is WHOLE else (inner[0], UNKNOWN)
        return (variable, where) if isinstance(variable, n.Var) else None

    def _bytes(self, copy: Copy) -> Size:
        """What a copy moves: bytes where the shape is known, else a name of its own."""
        for end in (copy.target, copy.source):
            size = self._selected(end, copy.given) or self._typed(end)
            if size is not None:
                return size
        found = self.part(copy.target, copy.given)
        if found is not None and None not in found[1].axes:
            return Size.of(f"#{found[0].name}{found[1].axes}")
        given = [words(value, self.stable) for value in copy.given.values()]
        return Size.of(f"#{id(copy.call)}{given}" if None not in given else f"#{id(copy.given)}")

    def _selected(self, end: n.Expression, given: Given) -> Size | None:
        """The bytes of ``buffer.at[0]``: what is left of the buffer's own shape where numbers take axes away."""
        found = self.part(end, given)
        base: Any = end
        while isinstance(base, n.IndexExpr | n.MemberExpr):
            base = base.base if isinstance(base, n.IndexExpr) else base.expr
        base = given.get(base.node, base) if isinstance(base, n.NameExpr) and base.node is not None else base
        ref = self._ref(base)
        if found is None or ref is None or ref.shape is None or len(found[1].axes) > len(ref.shape):
            return None
        if not all(axis is not None and (axis == "" or axis.isdigit()) for axis in found[1].axes):
            return None
        gone = [bool(axis) for axis in found[1].axes] + [False] * len(ref.shape)
        return _bytes_of([dim for dim, taken in zip(ref.shape, gone, strict=False) if not taken], ref.dtype)

    def _typed(self, end: n.Expression) -> Size | None:
        ref = self._ref(end)
        return None if ref is None or ref.shape is None else _bytes_of(ref.shape, ref.dtype)

    def _ref(self, expression: n.Expression) -> RefFact | None:
        kind = self.source.type_of(expression)
        return self.source.types.ref(kind) if kind is not None else None

    # ---------------------------------------------------------------- what goes out of sight

    def _understand(self, expression: Any) -> None:
        """The names in a place where a semaphore belongs."""
        if isinstance(expression, n.IndexExpr | n.MemberExpr):
            self._understand(expression.base if isinstance(expression, n.IndexExpr) else expression.expr)
        elif isinstance(expression, n.NameExpr):
            self._understood.add(expression)

    def _escape(self, copy: Copy) -> None:
        for semaphore in (copy.semaphore, copy.arrives):
            found = self.part(semaphore, copy.given) if semaphore is not None else None
            self._escaped |= {found[0]} if found is not None else self._own

    def _look_for_others(self) -> None:
        """Semaphores that something else is done with, or that other devices count on."""
        for node in self.body.nodes:
            if isinstance(node, n.NameExpr) and node.node in self._own and node not in self._understood:
                assert isinstance(node.node, n.Var)
                self._escaped.add(node.node)


def _bytes_of(shape: Sequence[Size | None], dtype: str | None) -> Size | None:
    marker = dtypes.from_jax_name(dtype) if dtype is not None else None
    if marker is None or marker.bits % 8 or not marker.bits:
        return None
    total = Size.of(marker.bits // 8)
    for dim in shape:
        if dim is None:
            return None
        total = total * dim
    return total
