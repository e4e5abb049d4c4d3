"""A call of JAX, from mypy's hook context to the type of its result, with an error where JAX refuses it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mypy.nodes import ARG_NAMED, ARG_OPT, ARG_POS, Expression
from mypy.nodes import Context as Place
from mypy.plugin import FunctionContext, MethodContext
from mypy.typeops import make_simplified_union
from mypy.types import AnyType, CallableType, Instance, TupleType, Type, UnionType, get_proper_type

from typedpallas import dtypes
from typedpallas.dtypes import DType
from typedpallas.events import Operation, Shape
from typedpallas_mypy import config, names, report, scope, transfer
from typedpallas_mypy.call import Call, Outcome, Refused, Several
from typedpallas_mypy.evaluate import Evaluator
from typedpallas_mypy.facts import ANY, Types
from typedpallas_mypy.static import NOTHING, Like, Static
from typedpallas_mypy.value import UNKNOWN, Value

_MOST_UNION_ITEMS = 8

type Argument = tuple[str | None, Expression, Type]
"""The keyword (none if positional), the expression and its type."""


def arguments(context: FunctionContext | MethodContext) -> list[Argument] | None:
    """What was passed, in order; none if some of it came through ``*`` or ``**``."""
    found: list[Argument] = []
    for i, expressions in enumerate(context.args):  # most formals of a JAX function are not given
        for j, expression in enumerate(expressions):
            way = context.arg_kinds[i][j]
            if way is ARG_NAMED:
                found.append((context.arg_names[i][j], expression, context.arg_types[i][j]))
            elif way is ARG_POS or way is ARG_OPT:
                found.append((None, expression, context.arg_types[i][j]))
            else:
                return None
    return found


class Answer:
    """The answer to one hook call."""

    def __init__(self, api: Any, place: Place, default: Type, shown: str, *, anew: bool = False) -> None:
        self.api = api
        self.anew = anew
        self.place = place
        self.default = default
        self.shown = shown
        """How messages write what is called: ``jnp.dot``, ``+``."""
        self.types = Types(api)
        self.evaluator = Evaluator(api, self.types)

    @property
    def unknown(self) -> Type:
        """What an undecided result is: an array of which nothing is known, or mypy's own answer if no array."""
        return unknown(self.types, self.default, anew=self.anew)

    def of(self, function: str, passed: Sequence[Argument]) -> Type:
        """The type of ``function(*passed)``; the items of unions are taken one by one."""
        choices = [self._choices(expression, kind) for _, expression, kind in passed]
        results: list[Type] = []
        refusals: list[tuple[Call, Refused]] = []
        for items in _combined(choices):
            call = _call(function, passed, items)
            outcome = transfer.evaluate(call, self.types.facts, self._families)
            if isinstance(outcome, Refused):
                refusals.append((call, outcome))
            else:
                self._list_unknown(call, outcome)
                results.append(self.type_of(outcome))
        if refusals and not results and not self._of_union():
            self._refuse(*refusals[0])
        if len(results) == 1:
            return results[0]
        return make_simplified_union(results) if results else self.unknown

    def _choices(self, expression: Expression, kind: Type) -> list[Static]:
        proper = get_proper_type(kind)
        if isinstance(proper, UnionType):
            return [self.evaluator.of_type(item) for item in proper.items]
        return [self.evaluator.static(expression, kind)]

    def _of_union(self) -> bool:
        """Whether an operand is a union: mypy asks for each item alone, and not every pair of items can meet."""
        sides = [getattr(self.place, side, None) for side in ("left", "right", "expr", "base")]
        kinds = [self.api.lookup_type(side) for side in sides if side is not None and self.api.has_type(side)]
        return any(isinstance(get_proper_type(kind), UnionType) for kind in kinds)

    def _families(self, call: Call) -> Mapping[str, type[DType] | None]:
        found: dict[str, type[DType] | None] = {}
        for leaf in call.leaves:
            value = leaf.value if isinstance(leaf, Like) else leaf
            if isinstance(value, Value) and value.parameter is not None:
                found[value.parameter.name] = self.types.family(value.parameter)
        return found

    def type_of(self, outcome: Outcome) -> Type:
        """The type of what came out."""
        default = get_proper_type(self.default)
        if isinstance(outcome, Value):
            return self.types.block(outcome) if takes_arrays(default) else self.default
        if isinstance(outcome, Several):
            return self._several(outcome, default)
        return self.unknown

    def _several(self, outcome: Several, default: Type) -> Type:
        values = [item for item in outcome.items if isinstance(item, Value)]
        if len(values) < len(outcome.items) or not holds_arrays(default, outcome.kind):
            return self.unknown
        if outcome.kind == "tuple":
            blocks: list[Type] = [self.types.block(value) for value in values]
            return TupleType(blocks, self.types.instance("builtins.tuple", [ANY]))
        common = values[0] if values and all(value == values[0] for value in values) else UNKNOWN
        return self.types.instance("builtins.list", [self.types.block(common)])

    def _list_unknown(self, call: Call, outcome: Outcome) -> None:
        """Say where knowledge ends: what goes in is known, what comes out is not."""
        if config.shows_open() and takes_arrays(self.default) and outcome is None and not _vague(call):
            passed = ", ".join(shown(self.types, leaf) for leaf in call.leaves if isinstance(leaf, Value | Like))
            report.unknown(self.api, self.place, f"what `{self.shown}` gives for {passed} is not known for all sizes")

    def _refuse(self, call: Call, refused: Refused) -> None:
        operands = [shown(self.types, leaf) for leaf in call.leaves if isinstance(leaf, Value | Like)]
        event = Operation(function=self.shown, operands=tuple(operands), refusal=refused.message, kind=refused.kind)
        report.judge(self.api, event, self.types.facts, {"": self.place})


def _vague(call: Call) -> bool:
    """Whether something of the call is unknown, so that the question was open before it."""
    values = [leaf.value if isinstance(leaf, Like) else leaf for leaf in call.leaves]
    known = [value for value in values if isinstance(value, Value)]
    return not known or NOTHING in values or any(map(_is_vague, known))


def _is_vague(value: Value) -> bool:
    return value.shape is None or None in value.shape


def _combined(choices: Sequence[Sequence[Static]]) -> Iterable[tuple[Static, ...]]:
    """One item of each, in every way; the first few."""
    if all([len(items) == 1 for items in choices]):
        return (tuple([items[0] for items in choices]),)
    return itertools.islice(itertools.product(*choices), _MOST_UNION_ITEMS)


def _call(function: str, passed: Sequence[Argument], items: Sequence[Static]) -> Call:
    positional: list[Static] = []
    named: list[tuple[str, Static]] = []
    for (keyword, _, _), item in zip(passed, items, strict=True):
        if keyword is None:
            positional.append(item)
        else:
            named.append((keyword, item))
    return Call(function, tuple(positional), tuple(named))


def holds_arrays(kind: Type, container: str) -> bool:
    """Whether a declared result says a tuple (or a list) of arrays, or nothing."""
    kind = get_proper_type(kind)
    if isinstance(kind, AnyType):
        return True
    if isinstance(kind, TupleType):
        return container == "tuple" and all(takes_arrays(item) for item in kind.items)
    named = isinstance(kind, Instance) and kind.type.fullname == f"builtins.{container}"
    return named and isinstance(kind, Instance) and all(takes_arrays(argument) for argument in kind.args)


def takes_arrays(kind: Type) -> bool:
    """Whether a declared result says array, or nothing."""
    kind = get_proper_type(kind)
    if isinstance(kind, UnionType):
        return any(takes_arrays(item) for item in kind.items)
    return isinstance(kind, AnyType) or (isinstance(kind, Instance) and kind.type.has_base(names.ARRAY))


def unknown(types: Types, default: Type, *, anew: bool = False) -> Type:
    """mypy's answer with every plain `jax.Array` in it made an array of which nothing is known.

    ``anew``: typed arrays too. A method that is declared to return `Self` need not keep the shape. A function that a
    transformation gives back (`jax.vmap`) takes other shapes than its own annotations say.
    """
    kind = get_proper_type(default)
    if isinstance(kind, CallableType) and any(scope.speaks(part) for part in (*kind.arg_types, kind.ret_type)):
        return ANY
    if isinstance(kind, Instance):
        if kind.type.fullname == names.ARRAY or (anew and kind.type.fullname == names.BLOCK):
            return types.block(UNKNOWN)
        if kind.type.fullname in ("builtins.list", "builtins.tuple") and kind.args:
            return kind.copy_modified(args=[unknown(types, argument, anew=anew) for argument in kind.args])
    if isinstance(kind, TupleType):
        return kind.copy_modified(items=[unknown(types, item, anew=anew) for item in kind.items])
    return default


def shown(types: Types, leaf: Value | Like) -> str:
    """An operand as messages write it: ``bf16[BM, BK]``."""
    value = leaf.value if isinstance(leaf, Like) else leaf
    if value.weak:
        return value.dtype or "number"
    element = value.parameter.name if value.parameter is not None else dtypes.short(value.dtype or "?")
    return f"{element}[{dims(value.shape)}]"


def dims(shape: Shape | None) -> str:
    """A shape as messages write it, without brackets."""
    return "..." if shape is None else ", ".join("?" if size is None else str(size) for size in shape)


def mentions(context: FunctionContext | MethodContext) -> bool:
    """Whether an argument is a typed array, a ref, or holds one."""
    for kinds in context.arg_types:  # loops, here and below: a call in ten takes part, and all are asked
        for kind in kinds:
            if scope.speaks(kind):
                return True
    return False
