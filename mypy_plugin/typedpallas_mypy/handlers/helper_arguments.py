"""What a call passes to a typed helper: refs and blocks that its annotations refuse, told by the rules.

mypy refuses them too, by the whole type. Where a rule says what is wrong, that stands in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mypy.expandtype import expand_type
from mypy.nodes import CallExpr, Expression, IndexExpr, MemberExpr, NameExpr
from mypy.subtypes import is_subtype
from mypy.types import CallableType, Instance, TypeVarId, TypeVarType, get_proper_type

from typedpallas.dims import Size
from typedpallas.events import Access, Argument, Event, RefFact
from typedpallas.records import record
from typedpallas_mypy import names, report
from typedpallas_mypy.facts import ANY, Types


@record(frozen=True)
class Passed:
    """One argument: its place among the parameters, its type, and where it is written."""

    position: int
    kind: Instance
    place: Expression


@record(frozen=True)
class Solved:
    """What a dim of the helper was found to be, and the argument that says so."""

    name: str
    size: Size
    place: Expression


def judged(
    context: Any, types: Types, signature: CallableType, passed: Sequence[Passed], dims: Mapping[TypeVarId, Solved]
) -> CallableType:
    """The signature, which takes anything where a rule has refused the argument already."""
    unsolved = {variable.id: ANY for variable in signature.variables}
    kinds = list(signature.arg_types)
    for one in passed:
        formal = get_proper_type(kinds[one.position])
        if not isinstance(formal, Instance) or is_subtype(one.kind, expand_type(formal, unsolved)):
            continue
        # What is left of sums, as in ``2*R``, is there because no number makes it what is given.
        open_dims = [isinstance(dim, TypeVarType) and dim.id in unsolved for dim in formal.args]
        formal = formal.copy_modified(args=[ANY if o else dim for o, dim in zip(open_dims, formal.args, strict=True)])
        given = [solved for solved in dims.values() if solved.place is not one.place]
        events = _events(types, context, signature.arg_names[one.position] or "the argument", formal, one, given)
        if any([report.judge(context.api, event, types.facts, {"": one.place}) for event in events]):
            kinds[one.position] = ANY
    return signature.copy_modified(arg_types=kinds)


def _events(
    types: Types, context: Any, name: str, formal: Instance, passed: Passed, dims: Sequence[Solved]
) -> Iterator[Event]:
    wanted, given = _fact(types, formal, name), _fact(types, passed.kind, _shown(passed.place))
    if wanted is None or given is None or (wanted.direction is None) != (given.direction is None):
        return
    callee, source = _callee(context), _shown(passed.place)
    yield Argument(
        kernel=callee,
        ref=wanted,
        source=f"`{source}`" if source not in ("", name) else "",
        space=given.space,
        dtype=given.dtype,
        what="argument",
    )
    used = [solved for solved in dims if wanted.shape is not None and solved.size in wanted.shape]
    yield Argument(
        kernel=callee,
        ref=wanted,
        source="",
        dtype=given.dtype if given.dtype == wanted.dtype else None,
        block=given.shape,
        what="argument",
        sizes={solved.name: solved.size for solved in used},
        origins={solved.name: f"as in `{_shown(solved.place)}`" for solved in used if _shown(solved.place)},
    )
    if given.direction == "in" and wanted.direction in ("out", "inout", "scratch"):
        yield Access(op="store", ref=replace(given, space=None, dtype=None, shape=None), moved=None)


def _fact(types: Types, kind: Instance, name: str) -> RefFact | None:
    """A ref, or a block as if it were one, without a space."""
    ref = types.ref(kind, name)
    if ref is not None:
        return ref if ref.space is None or ref.space.data else replace(ref, shape=None, dtype=None)
    value = types.value(kind) if kind.type.fullname == names.BLOCK else None
    return None if value is None else RefFact(name=name, space=None, dtype=value.dtype, shape=value.shape)


def _callee(context: Any) -> str:
    call = context.context
    callee = call.callee if isinstance(call, CallExpr) else None
    return callee.name if isinstance(callee, NameExpr | MemberExpr) else "the helper"


def _shown(expression: Expression) -> str:
    """The name of the variable that an argument is or is taken from; empty where it is neither."""
    while isinstance(expression, IndexExpr):
        expression = expression.base
    return expression.name if isinstance(expression, NameExpr) else ""
