"""`tp.launch` and what is done with a launch: the pattern against the kernel, then arrays and sizes against both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from mypy import nodes as n
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import CallableType, Instance, LiteralType, TupleType, Type, get_proper_type

from typedpallas import pattern as patterns
from typedpallas.dims import Size
from typedpallas.events import Argument, LaunchText
from typedpallas_mypy import report
from typedpallas_mypy.facts import ANY, Types, Value
from typedpallas_mypy.handlers import calls_kernel, calls_match
from typedpallas_mypy.handlers.calls_apply import Call, Said, Settled
from typedpallas_mypy.handlers.calls_match import Match
from typedpallas_mypy.handlers.calls_source import Source, arguments
from typedpallas_mypy.handlers.calls_text import Written, string, strings, written
from typedpallas_mypy.hooks import Hooks

_STUB: Final = "typedpallas._launch."


# ---------------------------------------------------------------------- tp.launch


def _launch(context: FunctionContext) -> Type:
    """Judge a launch where it is made; its type carries kernel, pattern, grid and what is settled."""
    call = context.context
    given = arguments(call, ("kernel", "pattern")) if isinstance(call, n.CallExpr) else None
    if given is None or "kernel" not in given or "pattern" not in given:
        return context.default_return_type
    source = Source(context.api, Types(context.api))
    text = written(source, given["pattern"])
    grid = string(source, given["grid"]) if "grid" in given else ""
    function = calls_kernel.function_of(context.arg_types[0][0])
    if text is None or grid is None or function is None:
        return context.default_return_type
    if _judged(context.api, source, function, text, grid, given):
        return context.default_return_type
    return _typed(context, function, text.text, grid, _settled(source, text, given))


def _judged(
    api: Any, source: Source, function: CallableType, text: Written, grid: str, given: Mapping[str, n.Expression]
) -> bool:
    """Whether something is wrong with the launch itself: then nothing more is said of its calls."""
    if _unreadable(api, text, grid, given):
        return True
    kernel = calls_kernel.kernel_of(function)
    if kernel is None or not calls_match.launchable(kernel):
        return False
    match = calls_match.match(patterns.parse(text.text, grid), kernel, frozenset(text.placed()))
    return _judge_match(api, source, match, text, given)


def _unreadable(api: Any, text: Written, grid: str, given: Mapping[str, n.Expression]) -> bool:
    places: dict[str, n.Context] = {"": text.node, "grid": given.get("grid", text.node)}
    try:
        patterns.parse(text.text, grid)
    except patterns.PatternError as error:
        if error.span is not None:
            places["pattern"] = text.place(*error.span)
    event = LaunchText(pattern=text.text, grid=grid)
    return report.judge(api, event, calls_kernel.NO_FACTS, places)


def _judge_match(api: Any, source: Source, match: Match, text: Written, given: Mapping[str, n.Expression]) -> bool:
    kernel, node = match.kernel, given["kernel"]
    places: dict[str, n.Context] = {f"parameter[{p.ref.name}]": node for p in kernel.parameters}
    event = calls_match.operands(match.pattern, kernel)
    if report.judge(api, event, kernel.facts, {**places, "": text.node}):
        return True
    wrong = False
    for position, argument in calls_match.arguments(match):
        slot = (match.inputs + match.outputs)[position]
        windows = range(len(slot.operand.windows))
        places = {f"block[{axis}]": text.window(position, slot.operand, axis) for axis in windows}
        wrong |= report.judge(api, argument, kernel.facts, {**places, "": text.operand(position)})
    parallel = strings(source, given["parallel"]) if "parallel" in given else ()
    axes = given.get("parallel", given.get("grid", text.node))
    for axis in calls_match.grid_axes(match, parallel or ()):
        wrong |= report.judge(api, axis, kernel.facts, {"": axes})
    return wrong


def _typed(context: FunctionContext, function: CallableType, pattern: str, grid: str, settled: str) -> Type:
    default = get_proper_type(context.default_return_type)
    if not isinstance(default, Instance):
        return default
    text = context.api.named_generic_type("builtins.str", [])
    facts = [LiteralType(value, text) for value in (pattern, grid, settled)]
    return default.copy_modified(args=[function, *facts])


# ---------------------------------------------------------------------- what a launch is told in advance


def _settled(source: Source, text: Written, given: Mapping[str, n.Expression]) -> str:
    found: dict[str, Any] = {"placed": sorted(text.placed())}
    if "ragged" in given:
        ragged = strings(source, given["ragged"])
        found["ragged"] = None if ragged is None else sorted(ragged)
    if "dims" in given:
        found["dims"] = _mapping(source, given["dims"])
    if "dtypes" in given:
        found["dtypes"] = None
    return _encoded(found)


def _mapping(source: Source, expression: n.Expression) -> dict[str, int | None] | None:
    """A dict display of sizes by name; none if it is not all there to read."""
    found = source.definition(expression)
    if not isinstance(found, n.DictExpr):
        return None
    sizes: dict[str, int | None] = {}
    for key, value in found.items:
        name = string(source, key) if key is not None else None
        if name is None:
            return None
        size = source.size(value)
        sizes[name] = size.const if size is not None else None
    return sizes


def _encoded(found: Mapping[str, Any]) -> str:
    """What is settled, as a text that mypy's cache keeps inside a type."""
    return json.dumps({key: value for key, value in found.items() if value != [] and value != {}}, sort_keys=True)


def _decoded(text: str) -> Settled | None:
    """What is settled; none if sizes may be that are not known by name."""
    found = json.loads(text)
    if found.get("dims", {}) is None:
        return None
    sizes = {
        key: {name: None if size is None else Size.of(size) for name, size in found.get(key, {}).items()}
        for key in ("dims", "bound")
    }
    ragged = found.get("ragged", [])
    return Settled(
        dims=sizes["dims"],
        bound=sizes["bound"],
        ragged=None if ragged is None else frozenset(ragged),
        placed=frozenset(found.get("placed", [])),
    )


def _bind(context: MethodContext) -> Type:
    """``launch.bind(BM=512)``: the same launch, with more sizes settled."""
    facts = _facts(context.type)
    call = context.context
    given = arguments(call, ()) if isinstance(call, n.CallExpr) else None
    if facts is None or given is None or not isinstance(call, n.CallExpr):
        return context.default_return_type
    function, pattern, grid, settled = facts
    source = Source(context.api, Types(context.api))
    found = json.loads(settled)
    bound = dict(found.get("bound", {}))
    match = _match(function, pattern, grid, settled)
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
    return default.copy_modified(args=[*kept.args[:3], LiteralType(_encoded({**found, "bound": bound}), text)])


def _facts(kind: Type) -> tuple[CallableType, str, str, str] | None:
    """What the type of a launch says: kernel, pattern, grid, settled."""
    kind = get_proper_type(kind)
    if not isinstance(kind, Instance) or len(kind.args) != 4:
        return None
    function, *texts = (get_proper_type(argument) for argument in kind.args)
    values = [text.value for text in texts if isinstance(text, LiteralType) and isinstance(text.value, str)]
    if not isinstance(function, CallableType) or len(values) != 3:
        return None
    return function, values[0], values[1], values[2]


def _match(function: CallableType, pattern: str, grid: str, settled: str) -> Match | None:
    """The launch again; none if it is wrong in itself, which was said where it was made."""
    kernel, known = calls_kernel.kernel_of(function), _decoded(settled)
    if kernel is None or known is None or not calls_match.launchable(kernel):
        return None
    try:
        parsed = patterns.parse(pattern, grid)
    except patterns.PatternError:
        return None
    match = calls_match.match(parsed, kernel, known.placed)
    complete = len(match.inputs) == len(parsed.inputs) and len(match.outputs) == len(parsed.outputs)
    return match if complete else None


# ---------------------------------------------------------------------- calling a launch


def _call(context: MethodContext) -> Type:
    """Judge a call of a launch; the result's type follows from the pattern."""
    facts, call = _facts(context.type), context.context
    if facts is None or not isinstance(call, n.CallExpr):
        return context.default_return_type
    match, settled = _match(*facts), _decoded(facts[3])
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
    """Judge what the call says, each at its own part."""
    for event, place in applied.said:
        own = places.get(place, places[""])
        report.judge(api, event, types.facts, {**places, "": own})


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


HOOKS: Hooks = Hooks(
    functions={f"{_STUB}launch": _launch},
    methods={f"{_STUB}Launch.__call__": _call, f"{_STUB}Launch.bind": _bind},
)
