"""What is done with a launch: arrays and sizes against pattern and kernel, and the type of what comes out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from mypy import nodes as n
from mypy.plugin import MethodContext
from mypy.types import Instance, LiteralType, TupleType, Type, get_proper_type

from typedpallas.dims import Size
from typedpallas.events import Argument, DimSize, Window
from typedpallas_mypy import report
from typedpallas_mypy.facts import ANY, Types
from typedpallas_mypy.handlers import calls_told
from typedpallas_mypy.handlers.calls_apply import Call, Said, Settled
from typedpallas_mypy.handlers.calls_match import Match
from typedpallas_mypy.handlers.calls_source import Source, arguments
from typedpallas_mypy.hooks import Hooks
from typedpallas_mypy.value import Value

_LAUNCH: Final = "typedpallas._launch.Launch"


def _call(context: MethodContext) -> Type:
    """Judge a call of a launch; the result's type follows from the pattern."""
    facts, call = calls_told.told(context.type), context.context
    if facts is None or not isinstance(call, n.CallExpr):
        return context.default_return_type
    match, settled = calls_told.match_of(*facts), calls_told.decoded(facts[3])
    if match is None or settled is None:
        return context.default_return_type
    types = Types(context.api)
    applied = Call(match, settled, _name(call, match))
    arrays, sizes = context.args[0], context.args[1]
    named = {name: e for name, e in zip(context.arg_names[1], sizes, strict=True) if name is not None}
    source = Source(context.api, types)
    given = {name: source.size(expression) for name, expression in named.items()}
    applied.name_sizes(given, complete=n.ARG_STAR2 not in context.arg_kinds[1])
    starred = n.ARG_STAR in context.arg_kinds[0]
    values = [] if starred else [types.value(kind) for kind in context.arg_types[0]]
    shapes = [None if value is None or value.weak else value.shape for value in values]
    if not starred:
        applied.check_count(len(arrays))
    applied.take(shapes)
    applied.said += _elements(applied, values)
    applied.said += applied.windows(shapes)
    _say(context.api, applied, types, _places(call, named, arrays))
    return _result(types, applied, values)


def _elements(applied: Call, values: list[Value | None]) -> Iterator[Said]:
    """Each array's element type against the annotation, or against the array that fixed its type parameter."""
    fixed: dict[str, tuple[str, str]] = {}
    for i, (slot, value) in enumerate(zip(applied.match.inputs, values, strict=False)):
        if value is None or value.weak or value.dtype is None:
            continue
        ref, name = replace(slot.parameter.ref, shape=None), slot.parameter.dtype_name
        origins: dict[str, str] = {}
        if name is not None:
            dtype, origin = fixed.setdefault(name, (value.dtype, f"that of `{ref.name}`"))
            ref, origins = replace(ref, dtype=dtype), {name: origin}
        event = Argument(kernel=applied.match.kernel.name, ref=ref, source="", dtype=value.dtype, origins=origins)
        yield event, f"array[{i}]"


def _name(call: n.CallExpr, match: Match) -> str:
    """How the user calls the launch, or the kernel's name."""
    callee = call.callee.expr if isinstance(call.callee, n.MemberExpr) and call.callee.name == "bind" else call.callee
    return callee.name if isinstance(callee, n.NameExpr | n.MemberExpr) else match.kernel.name


def _places(call: n.CallExpr, named: Mapping[str, n.Expression], arrays: list[n.Expression]) -> dict[str, n.Context]:
    places: dict[str, n.Context] = {f"size[{name}]": expression for name, expression in named.items()}
    places |= {f"array[{i}]": expression for i, expression in enumerate(arrays)}
    return {**places, "": call}


def _say(api: Any, applied: Call, types: Types, places: Mapping[str, n.Context]) -> None:
    """Judge what the call says, each at its own part; a block at the size that the call gives it, where it does.

    Of a size that is wrong in itself nothing more is said.
    """
    wrong: set[str | None] = set()
    for event, place in applied.said:
        own = {**places, "": places.get(place, places[""])}
        if isinstance(event, Window):
            names = event.block_names
            for axis, name in enumerate(names):
                own[f"block[{axis}]"] = places.get(f"size[{name}]", own[""])
            block = tuple(None if name in wrong else dim for name, dim in zip(names, event.block, strict=True))
            event = replace(event, block=block)
        if report.judge(api, event, types.facts, own) and isinstance(event, DimSize):
            wrong.add(event.dim)


def _result(types: Types, applied: Call, values: list[Value | None]) -> Type:
    """The type of the output, or of the tuple of outputs."""
    elements: dict[str, Value] = {}
    for slot, value in zip(applied.match.inputs, values, strict=False):
        name = slot.parameter.dtype_name
        if name is not None and value is not None and (value.dtype or value.parameter) and not value.weak:
            elements.setdefault(name, value)
    results: list[Type] = []
    for slot in applied.match.outputs:
        known = elements.get(slot.parameter.dtype_name or "")
        dtype = known.dtype if known is not None else slot.parameter.ref.dtype
        parameter = known.parameter if known is not None else None
        results.append(types.block(Value(dtype, applied.array(slot), parameter=parameter)))
    return results[0] if len(results) == 1 else TupleType(results, types.instance("builtins.tuple", [ANY]))


def _bind(context: MethodContext) -> Type:
    """``launch.bind(BM=512)``: the same launch, with more sizes settled."""
    facts = calls_told.told(context.type)
    call = context.context
    given = arguments(call, ()) if isinstance(call, n.CallExpr) else None
    if facts is None or given is None or not isinstance(call, n.CallExpr):
        return context.default_return_type
    function, pattern, grid, settled = facts
    source = Source(context.api, Types(context.api))
    found = json.loads(settled)
    bound = dict(found.get("bound", {}))
    match = calls_told.match_of(function, pattern, grid, settled)
    for name, expression in given.items():
        if name == "tuning":
            continue
        size = source.size(expression)
        bound[name] = size.const if size is not None else None
    if match is not None:
        early = Call(match, Settled(), _name(call, match))
        sizes = {k: None if v is None else Size.of(v) for k, v in bound.items()}
        early.name_sizes(sizes, complete=False)
        _say(context.api, early, source.types, _places(call, given, []))
    default = get_proper_type(context.default_return_type)
    assert isinstance(default, Instance)
    kept = get_proper_type(context.type)
    assert isinstance(kept, Instance)
    text = context.api.named_generic_type("builtins.str", [])
    return default.copy_modified(
        args=[*kept.args[:3], LiteralType(calls_told.encoded({**found, "bound": bound}), text)]
    )


HOOKS: Hooks = Hooks(methods={f"{_LAUNCH}.__call__": _call, f"{_LAUNCH}.bind": _bind})
