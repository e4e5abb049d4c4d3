"""What a body does to its semaphores: the copies that it starts and waits for, the signals that it gives and takes.

A copy is followed from where it is made to each `start()` and `wait()`: through a variable that is bound once, and
through a small function that only makes it. Where it goes anywhere else (a container, another function, a result),
anybody may wait for it, and its semaphore is not followed at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, Literal

from mypy import nodes as n

from typedpallas import dtypes
from typedpallas.dims import Size
from typedpallas.records import record
from typedpallas_mypy.handlers import scoped
from typedpallas_mypy.handlers.body_text import UNKNOWN, WHOLE, Given, Region, region, words
from typedpallas_mypy.handlers.body_tree import Body
from typedpallas_mypy.handlers.calls_source import Source, arguments, function_name

type Act = Literal["start", "wait", "signal", "take"]

_LOCAL: Final = ("src_ref", "dst_ref", "sem")
_REMOTE: Final = ("src_ref", "dst_ref", "send_sem", "recv_sem", "device_id", "device_id_type")
_MADE: Final = {
    "make_async_copy": _LOCAL,
    "async_copy": _LOCAL,
    "copy": _LOCAL,
    "make_async_remote_copy": _REMOTE,
    "async_remote_copy": _REMOTE,
}
_STARTED: Final = ("async_copy", "async_remote_copy")
_NAMES: Final = {"src": "src_ref", "dst": "dst_ref"}
_WAITS: Final = ("wait", "wait_send")
_LOOKS: Final = ("semaphore_read",)
_SIGNALS: Final[dict[str, tuple[Act, str]]] = {
    "semaphore_signal": ("signal", "inc"),
    "semaphore_wait": ("take", "value"),
}
_LOOPS: Final = ("fori_loop", "while_loop", "scan", "map")
LATER: Final = (n.TryStmt, n.MatchStmt, n.GeneratorExpr, n.DictionaryComprehension, n.ClassDef, n.OverloadedFuncDef)
"""What runs at another time, or perhaps not at all: semaphores that are used in there are not followed."""


@record(frozen=True)
class Copy:
    """A copy as it is made. ``given``: what stands for the parameters of the function that makes it."""

    call: n.CallExpr
    source: n.Expression
    target: n.Expression
    semaphore: n.Expression
    arrives: n.Expression | None
    """The semaphore that counts at the other device; none for a copy within one."""
    started: bool
    given: Given


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


def copy_made(call: n.CallExpr) -> Copy | None:
    """The copy that a call makes; none if it makes none."""
    name = function_name(call)
    made = name.rpartition(".")[2]
    if made not in _MADE or not name.startswith(("jax.", "typedpallas.")):
        return None
    if made == "copy" and not name.startswith("typedpallas."):
        return None
    given = {_NAMES.get(key, key): value for key, value in (arguments(call, _MADE[made]) or {}).items()}
    if "src_sem" in given:
        return None  # newer JAX: one semaphore for each end
    remote = _MADE[made] is _REMOTE
    semaphore = given.get("send_sem" if remote else "sem")
    if semaphore is None or not {"src_ref", "dst_ref"} <= given.keys() or (remote and "recv_sem" not in given):
        return None
    return Copy(call, given["src_ref"], given["dst_ref"], semaphore, given.get("recv_sem"), made in _STARTED, {})


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
        self._run: set[n.Node] = set()
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
        return all(self._follow(copy, mention) for mention in self._mentions(variable, above))

    def _mentions(self, variable: n.SymbolNode, binding: n.Node) -> Iterator[n.NameExpr]:
        for node in self.body.nodes:
            if isinstance(node, n.NameExpr) and node.node is variable and self.body.parents[node] is not binding:
                yield node

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
        return all(self._made_by(copy, function, mention) for mention in self._mentions(name, above))

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
        if not all(map(self._runs_in_sight, self.body.above(place))):
            self._escaped.add(op.semaphore)

    def _runs_in_sight(self, above: n.Node) -> bool:
        """Whether it can be told when something that stands in a node is run."""
        if isinstance(above, n.OpExpr):
            return above.op not in ("and", "or")
        if not isinstance(above, n.FuncDef | n.LambdaExpr):
            return not isinstance(above, (*LATER, n.ConditionalExpr))
        if above is self.body.function or above in self._run:
            return True
        if self._is_run(above):
            self._run.add(above)
        return above in self._run

    def _is_run(self, function: n.FuncDef | n.LambdaExpr) -> bool:
        """Whether a function is only called, or run by `pl.when`, `pl.loop` or a loop of JAX."""
        above = self.body.parents[function]
        if isinstance(above, n.Decorator):
            made = above.original_decorators
            return len(made) == 1 and isinstance(made[0], n.CallExpr) and bool(runs(made[0]))
        if isinstance(function, n.LambdaExpr) and self._hands_on(function):
            return True
        name = function if isinstance(function, n.FuncDef) else bound_to(above, function)
        if name is None or (isinstance(name, n.Var) and not self.stable(name)):
            return False
        return all(self._is_called(m) or self._hands_on(m) for m in self._mentions(name, above))

    def _is_called(self, mention: n.Expression) -> bool:
        call = self.body.parents[mention]
        return isinstance(call, n.CallExpr) and call.callee is mention

    def _hands_on(self, mention: n.Expression) -> bool:
        """Whether a function is handed to something that runs it at once: ``pl.when(test)(f)``, a loop."""
        call = self.body.parents[mention]
        if not isinstance(call, n.CallExpr) or mention not in call.args:
            return False
        if isinstance(call.callee, n.CallExpr):
            return bool(runs(call.callee)) and len(call.args) == 1
        return is_loop(call) or (mention is call.args[0] and runs(call) == "scoped")

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
            kind = self.source.type_of(end)
            ref = self.source.types.ref(kind) if kind is not None else None
            if ref is not None and ref.shape is not None and None not in ref.shape and ref.dtype is not None:
                marker = dtypes.from_jax_name(ref.dtype)
                if marker is not None and marker.bits % 8 == 0:
                    total = Size.of(marker.bits // 8)
                    for dim in ref.shape:
                        total = total * (dim if dim is not None else 1)
                    return total
        found = self.part(copy.target, copy.given)
        if found is not None and None not in found[1].axes:
            return Size.of(f"#{found[0].name}{found[1].axes}")
        given = [words(value, self.stable) for value in copy.given.values()]
        return Size.of(f"#{id(copy.call)}{given}" if None not in given else f"#{id(copy.given)}")

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


def runs(call: n.CallExpr) -> str:
    """``when``, ``loop`` or ``scoped`` where a call gives what runs a function so."""
    if scoped.is_run_scoped(call):
        return "scoped"
    name = function_name(call)
    kind = name.rpartition(".")[2]
    return kind if name.startswith("jax.") and kind in ("when", "loop") and call.args else ""


def is_loop(call: n.CallExpr) -> bool:
    """Whether a call is a loop of `jax.lax`, which runs the functions that it is given."""
    name = function_name(call)
    return name.startswith("jax.") and name.rpartition(".")[2] in _LOOPS


def bound_to(statement: n.Node, value: n.Expression) -> n.Var | None:
    """The one variable that a statement binds to a value."""
    if not isinstance(statement, n.AssignmentStmt) or statement.rvalue is not value or len(statement.lvalues) != 1:
        return None
    target = statement.lvalues[0]
    return target.node if isinstance(target, n.NameExpr) and isinstance(target.node, n.Var) else None
