"""What the loops and branches of `jax.lax` have in common: carries, stacked arrays, bodies without annotations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from mypy.checker import TypeChecker
from mypy.nodes import ARG_POS, Context, Expression, FuncDef, NameExpr
from mypy.types import CallableType, Instance, LiteralType, NoneType, TupleType, Type, get_proper_type

from typedpallas import solve
from typedpallas.dims import Size
from typedpallas.dtypes import short
from typedpallas.events import Operation
from typedpallas_mypy import answer, names, report
from typedpallas_mypy.facts import ANY, Types
from typedpallas_mypy.value import Value


def body_type(api: Any, *parameters: Type) -> CallableType:
    """The type of a body with these parameters; what it gives back is looked at elsewhere."""
    fallback = Types(api).instance("builtins.function")
    count = len(parameters)
    return CallableType(list(parameters), [ARG_POS] * count, [None] * count, ANY, fallback)


def element(types: Types, whole: Type) -> Type:
    """What one step of a scan is given of arrays that are stacked along their first axis."""
    kind = get_proper_type(whole)
    if isinstance(kind, TupleType):
        return kind.copy_modified(items=[element(types, item) for item in kind.items])
    value = types.value(kind)
    if not isinstance(kind, Instance) or kind.type.fullname != names.BLOCK or value is None:
        return ANY
    return types.block(replace(value, shape=value.shape[1:] if value.shape else None))


def length(types: Types, whole: Type) -> Size | None:
    """How many steps a scan over these arrays has."""
    kind = get_proper_type(whole)
    if isinstance(kind, TupleType):
        found = [size for item in kind.items if (size := length(types, item)) is not None]
        return found[0] if found else None
    value = types.value(kind)
    return value.shape[0] if value is not None and not value.weak and value.shape else None


def stacked(types: Types, one: Type, steps: Size | None) -> Type:
    """What a scan gives of the results of its steps: each array with a first axis before its own."""
    kind = get_proper_type(one)
    if isinstance(kind, NoneType):
        return kind
    if isinstance(kind, TupleType):
        return kind.copy_modified(items=[stacked(types, item, steps) for item in kind.items])
    value = types.value(kind) if isinstance(kind, Instance) and kind.type.fullname == names.BLOCK else None
    if value is None:
        return ANY
    return types.block(replace(value, shape=None if value.shape is None else (steps, *value.shape)))


def carry_of(initial: Type) -> Type:
    """The type of a carry: a Python number becomes whatever array the body makes of it."""
    kind = get_proper_type(initial)
    if isinstance(kind, LiteralType):
        return ANY
    if isinstance(kind, TupleType):
        return kind.copy_modified(items=[carry_of(item) for item in kind.items])
    if isinstance(kind, Instance):
        if kind.type.fullname in ("builtins.int", "builtins.float", "builtins.bool", "builtins.complex"):
            return ANY
        if kind.type.fullname in ("builtins.list", "builtins.dict"):
            return kind.copy_modified(args=[carry_of(argument) for argument in kind.args])
    return initial


def check_unannotated(api: Any, body: Expression, kind: CallableType) -> None:
    """Check a nested function without annotations as a body of this type."""
    node = body.node if isinstance(body, NameExpr) else None
    if not isinstance(node, FuncDef) or node.type is not None or len(node.arg_names) != len(kind.arg_names):
        return
    checker = cast(TypeChecker, api)
    typed = kind.copy_modified(arg_names=list(node.arg_names), arg_kinds=list(node.arg_kinds))
    with checker.tscope.function_scope(node), checker.local_type_map:
        checker.check_func_item(node, type_override=typed, name=node.name)


def check_carry(api: Any, function: str, place: Context, carry: Type, made: Type) -> None:
    """The body must give back what it was given: the first part that surely differs is an error."""
    _check_same(api, function, place, carry, made, "the body is given {} and gives back {}")


def check_branch(api: Any, function: str, place: Context, first: Type, other: Type) -> None:
    """All branches must give back the same: the first part that surely differs is an error."""
    _check_same(api, function, place, first, other, "the first branch gives back {} and this one {}")


def _check_same(api: Any, function: str, place: Context, one: Type, other: Type, refusal: str) -> None:
    types = Types(api)
    for before, after in _parts(one, other):
        old, new = types.value(before), types.value(after)
        if old is None or new is None:
            continue
        kind = _difference(types, old, new)
        if kind is not None:
            was, became = answer.shown(types, old), answer.shown(types, new)
            event = Operation(
                function=function,
                operands=(was, became),
                refusal=refusal.format(was, became),
                kind="shape" if kind == "shape" else "dtype",
            )
            report.judge(api, event, types.facts, {"": place})
            return


def _difference(types: Types, old: Value, new: Value) -> str | None:
    if old.shape is not None and new.shape is not None:
        if len(old.shape) != len(new.shape):
            return "shape"
        pairs = zip(old.shape, new.shape, strict=True)
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        if any(isinstance(solve.equal(a, b, types.facts), solve.Refuted) for a, b in known):
            return "shape"
    surely = old.dtype and new.dtype and not old.weak and not new.weak
    return "dtype" if surely and short(old.dtype or "") != short(new.dtype or "") else None


def _parts(before: Type, after: Type) -> Iterator[tuple[Type, Type]]:
    before, after = get_proper_type(before), get_proper_type(after)
    if isinstance(before, TupleType) and isinstance(after, TupleType) and len(before.items) == len(after.items):
        for old, new in zip(before.items, after.items, strict=True):
            yield from _parts(old, new)
    elif isinstance(before, Instance) and before.type.fullname == names.BLOCK:
        yield before, after
