"""`tp.launch` where it is written: the pattern against the kernel's annotations."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from mypy import nodes as n
from mypy.plugin import FunctionContext
from mypy.types import CallableType, Instance, LiteralType, Type, get_proper_type

from typedpallas import pattern as patterns
from typedpallas.dims import Size
from typedpallas.events import CallSizes, IndexMap, LaunchText
from typedpallas_mypy import report
from typedpallas_mypy.facts import Types
from typedpallas_mypy.handlers import (
    bodies,
    calls_kernel,
    calls_match,
    calls_told,
    slices_judged,
    slices_layouts,
    specs,
)
from typedpallas_mypy.handlers.calls_kernel import Kernel
from typedpallas_mypy.handlers.calls_match import Match, Slot
from typedpallas_mypy.handlers.calls_source import Source, arguments
from typedpallas_mypy.handlers.calls_text import Written, string, strings, written
from typedpallas_mypy.hooks import Hooks


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
    kernel = calls_kernel.kernel_of(function)
    if kernel is not None:
        bodies.judge(source, kernel, given["kernel"], aliased=False)
        if slices_layouts.on_tensor_core(source, given):
            _judge_slices(source, kernel, text, grid, given["kernel"])
    return _typed(context, function, text.text, grid, calls_told.settled(source, text, given))


def _judge_slices(source: Source, kernel: Kernel, text: Written, grid: str, expression: n.Expression) -> None:
    """The parts of refs that the kernel's body takes, as the pattern lays them out."""
    function = slices_layouts.function_of(source, expression)
    if function is not None and calls_match.launchable(kernel):
        match = calls_match.match(patterns.parse(text.text, grid), kernel, frozenset(text.placed))
        slices_judged.launched(source.api, function, text.node, lambda: slices_layouts.of_pattern(match), hinted=True)


def _judged(
    api: Any, source: Source, function: CallableType, text: Written, grid: str, given: Mapping[str, n.Expression]
) -> bool:
    """Whether something is wrong with the launch itself: then nothing more is said of its calls."""
    if _unreadable(api, text, grid, given):
        return True
    kernel = calls_kernel.kernel_of(function)
    if kernel is None or not calls_match.launchable(kernel):
        return False
    match = calls_match.match(patterns.parse(text.text, grid), kernel, frozenset(text.placed))
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
    """Operands, blocks, sizes, index maps and grid axes, each at its own part of the text."""
    kernel, node = match.kernel, given["kernel"]
    event = calls_match.operands(match.pattern, kernel)
    places: dict[str, n.Context] = {f"parameter[{p.ref.name}]": node for p in kernel.parameters}
    if report.judge(api, event, kernel.facts, {**places, "": text.node}):
        return True
    wrong = False
    for position, argument in calls_match.arguments(match):
        slot = (match.inputs + match.outputs)[position]
        wrong |= report.judge(api, argument, kernel.facts, functools.partial(_of_blocks, text, position, slot))
    if "dims" in given:
        names = calls_told.sizes_by_name(source, given["dims"]) or {}
        known = (*match.names, *match.pattern.grid)
        sizes = CallSizes(launch=kernel.name, known=known, needed=(), given=tuple(names))
        wrong |= report.judge(api, sizes, kernel.facts, {"": given["dims"]})
    for position, call in text.placed.items():
        wrong |= _judge_own_map(api, source, match, position, call)
    parallel = strings(source, given["parallel"]) if "parallel" in given else ()
    axes = given.get("parallel", given.get("grid", text.node))
    for axis in calls_match.grid_axes(match, parallel or ()):
        wrong |= report.judge(api, axis, kernel.facts, {"": axes})
    return wrong


def _of_blocks(text: Written, position: int, slot: Slot) -> dict[str, n.Context]:
    """Where the parts of an operand's block stand in the pattern."""
    windows = range(len(slot.operand.windows))
    places = {f"block[{axis}]": text.window(position, slot.operand, axis) for axis in windows}
    return {**places, "": text.operand(position)}


def _judge_own_map(api: Any, source: Source, match: Match, position: int, call: n.CallExpr) -> bool:
    """The index map of `tp.spec`: it takes the grid ids, and prefetched refs after them."""
    given = arguments(call, ("text",)) or {}
    expression = given.get("index", given.get("offset"))
    index_map = specs.index_map(source, expression) if expression is not None else None
    slots = match.inputs + match.outputs
    if index_map is None or expression is None or position >= len(slots):
        return False
    slot, rank = slots[position], len(match.pattern.grid)
    parts = slot.operand.parts
    event = IndexMap(
        name=slot.name,
        role=slot.role,
        grid=tuple(map(Size.of, match.pattern.grid)),
        parameters=rank if index_map.most is None else min(rank, index_map.most),
        results=index_map.results,
        block=tuple("squeezed" if name is None else Size.of(name) for name in calls_match.window_names(slot.operand)),
        array=(None,) * len(parts),
    )
    return report.judge(api, event, calls_kernel.NO_FACTS, {"": expression})


def _typed(context: FunctionContext, function: CallableType, pattern: str, grid: str, settled: str) -> Type:
    default = get_proper_type(context.default_return_type)
    if not isinstance(default, Instance):
        return default
    text = context.api.named_generic_type("builtins.str", [])
    facts = [LiteralType(value, text) for value in (pattern, grid, settled)]
    return default.copy_modified(args=[function, *facts])


HOOKS: Hooks = Hooks(functions={"typedpallas._launch.launch": _launch})
