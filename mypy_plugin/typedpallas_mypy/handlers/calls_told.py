"""What the type of a launch tells: its kernel, pattern and grid, and what it was told in advance.

mypy's caches keep types and nothing beside them, so everything stands in the arguments of `Launch`; what is settled
is one text there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mypy import nodes as n
from mypy.types import CallableType, Instance, LiteralType, Type, get_proper_type

from typedpallas import pattern as patterns
from typedpallas.dims import Size
from typedpallas_mypy.handlers import calls_kernel, calls_match
from typedpallas_mypy.handlers.calls_apply import Settled
from typedpallas_mypy.handlers.calls_match import Match
from typedpallas_mypy.handlers.calls_source import Source
from typedpallas_mypy.handlers.calls_text import Written, string, strings


def settled(source: Source, text: Written, given: Mapping[str, n.Expression]) -> str:
    """What `tp.launch` is told beside kernel, pattern and grid."""
    found: dict[str, Any] = {"placed": sorted(text.placed)}
    if "ragged" in given:
        ragged = strings(source, given["ragged"])
        found["ragged"] = None if ragged is None else sorted(ragged)
    if "dims" in given:
        found["dims"] = sizes_by_name(source, given["dims"])
    if "dtypes" in given:
        found["dtypes"] = None
    return encoded(found)


def sizes_by_name(source: Source, expression: n.Expression) -> dict[str, int | None] | None:
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


def encoded(found: Mapping[str, Any]) -> str:
    """What is settled, as a text that mypy's cache keeps inside a type."""
    kept = {key: value for key, value in found.items() if value != [] and value != {}}
    return json.dumps(kept, sort_keys=True) if kept else "{}"


def decoded(text: str) -> Settled | None:
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


def told(kind: Type) -> tuple[CallableType, str, str, str] | None:
    """What the type of a launch says: kernel, pattern, grid, settled."""
    kind = get_proper_type(kind)
    if not isinstance(kind, Instance) or len(kind.args) != 4:
        return None
    function, *texts = (get_proper_type(argument) for argument in kind.args)
    values = [text.value for text in texts if isinstance(text, LiteralType) and isinstance(text.value, str)]
    if not isinstance(function, CallableType) or len(values) != 3:
        return None
    return function, values[0], values[1], values[2]


def match_of(function: CallableType, pattern: str, grid: str, settled: str) -> Match | None:
    """The launch again; none if it is wrong in itself, which was said where it was made."""
    kernel, known = calls_kernel.kernel_of(function), decoded(settled)
    if kernel is None or known is None or not calls_match.launchable(kernel):
        return None
    try:
        parsed = patterns.parse(pattern, grid)
    except patterns.PatternError:
        return None
    match = calls_match.match(parsed, kernel, known.placed)
    complete = len(match.inputs) == len(parsed.inputs) and len(match.outputs) == len(parsed.outputs)
    return match if complete else None
