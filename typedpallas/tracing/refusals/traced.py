"""JAX's own refusals while it traces a kernel, read back as the events of the rule that they broke."""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from typedpallas import dtypes, gpu
from typedpallas.diagnostics import Place
from typedpallas.dims import Size
from typedpallas.events import Access, Alias, Capture, Copied, Event, Index, IndexMap, Operation, RefFact, Shape
from typedpallas.tracing.body import sizes
from typedpallas.tracing.refusals import calls as refused_calls
from typedpallas.tracing.refusals import indices as ranges_refused
from typedpallas.tracing.refusals import layouts as refused_layouts
from typedpallas.tracing.refusals import semaphores as refused_semaphores
from typedpallas.tracing.refusals import tracebacks


@dataclass(frozen=True)
class Refusal:
    """What JAX would not trace: the event that a rule judges, its place, and JAX's words."""

    event: Event
    place: Place
    words: str


def understood(error: Exception) -> Refusal | None:
    """The refusal in an exception that tracing raised; none if it is not about a kernel, or is not known.

    The exception must have been raised under `tracebacks.whole_tracebacks`.
    """
    words = " ".join(str(error).split())
    place, text = tracebacks.place_of_error(error)
    spread = refused_calls.shard(words) or refused_calls.explicit(words) or refused_calls.mesh(words)
    shard = spread if isinstance(error, ValueError) else None
    if shard is not None:
        return Refusal(shard, place, words)
    if not tracebacks.in_kernel(error):
        return None
    layout = refused_layouts.event(error)
    if layout is not None:
        return Refusal(layout, place, words or f"{type(error).__name__}, without words")
    unbound = refused_calls.unbound(words) if isinstance(error, NameError) else None
    if unbound is not None:
        return Refusal(unbound, place, words)
    returned = refused_calls.returned(words)
    if returned is not None:
        return Refusal(returned, _named_place(words) or place, words)
    called = refused_calls.arity(error, words)
    if called is not None:
        return Refusal(*called, words)
    misuse = refused_semaphores.event(words, text)
    if misuse is not None:
        return Refusal(misuse, place, words)
    for pattern, build in _KNOWN:
        found = pattern.search(words)
        event = build(found, text) if found else None
        if event is not None:
            return Refusal(event, _named_place(words) or place, words)
    sliced = ranges_refused.event(error, words, _name(text))
    return Refusal(sliced, place, words) if sliced is not None else _of_index_map(error, words)


_AT = re.compile(r"(?:pallas_call kernel|Index map function|pallas_call) \S+ at (?P<file>.+?):(?P<line>\d+)")


def _named_place(words: str) -> Place | None:
    """The function's own line, where the message names it."""
    found = _AT.search(words)
    return Place(file=found["file"], line=int(found["line"])) if found else None


def _name(text: str) -> str:
    """The ref in ``acc[...]``, as far as the source text shows it."""
    found = re.match(r"[A-Za-z_][\w.]*", text)
    return found[0] if found else "the ref"


def _shape(text: str) -> Shape:
    return tuple(Size.of(int(d)) for d in re.findall(r"\d+", text))


def _stored_dtype(found: re.Match[str], text: str) -> Event:
    ref = RefFact(name=_name(text), space=None, dtype=found["ref"], shape=None)
    return Access(op="store", ref=ref, moved=None, value_dtype=found["value"])


def _stored_shape(found: re.Match[str], text: str) -> Event:
    ref = RefFact(name=_name(text), space=None, dtype=None, shape=_shape(found["ref"]))
    return Access(op="store", ref=ref, moved=_shape(found["moved"]), value_shape=_shape(found["value"]))


def _index(found: re.Match[str], text: str) -> Event:
    given = _parts(found["given"])
    return Index(name=_name(text), given=given, rank=len(_shape(found["shape"])))


def _parts(text: str) -> int:
    """How many items a printed tuple has at its top level."""
    depth, count = 0, 0
    for char in text.strip().rstrip(","):
        depth += (char in "([") - (char in ")]")
        count += char == "," and depth == 0
    return count + 1 if text.strip() else 0


def _capture(found: re.Match[str], text: str) -> Event:
    return Capture(function=found["name"], kind="kernel", types=tuple(re.findall(r"\w+\[[^\]]*\]", found["types"])))


def _map_capture(found: re.Match[str], text: str) -> Event:
    types = tuple(re.findall(r"\w+\[[^\]]*\]", found["types"])) or ("an array",)
    return Capture(function=found["name"], kind="index map", types=types)


def _block_index(found: re.Match[str], text: str) -> Event | None:
    if not found["type"].startswith(("float", "bfloat", "bool", "complex")):
        return None
    return Index(name=found["name"], given=1, rank=1, dtypes=(found["type"],), of_block=True)


def _gpu_copy(found: re.Match[str], text: str) -> Event:
    """A copy from global to shared memory that moves another shape than its target has."""
    names = re.search(r"copy_gmem_to_smem\(\s*(?P<source>\w+)(?:\.at\[[^\]]*\])?,\s*(?P<target>\w+)", text)
    source, target = (names["source"], names["target"]) if names else ("the source", "the target")
    return Copied(
        source=RefFact(name=source, space=gpu.GMEM, dtype=None, shape=_shape(found["moved"])),
        target=RefFact(name=target, space=gpu.SMEM, dtype=None, shape=_shape(found["wanted"])),
    )


def _alias(found: re.Match[str], text: str) -> Event:
    return Alias(
        input=int(found["i"]), output=int(found["o"]), input_type=found["given"], output_type=found["wanted"]
    )


def _portable(kind: Literal["shape", "dtype"]) -> Callable[[re.Match[str], str], Event]:
    """A product that ``tp.dot`` or ``tp.mma`` refuses."""

    def build(found: re.Match[str], text: str) -> Event:
        named = r"\([\d, ]*\)" if kind == "shape" else r"(?<=found )\w+|(?<=and )\w+"
        return Operation(
            function=found["function"],
            operands=tuple(dtypes.short(name) for name in re.findall(named, found["rest"])),
            refusal=found.string,
            kind=kind,
            by="typedpallas",
        )

    return build


def _operation(kind: Literal["shape", "dtype"]) -> Callable[[re.Match[str], str], Event]:
    def build(found: re.Match[str], text: str) -> Event:
        groups = found.groupdict()
        return Operation(
            function=groups.get("function") or "this operation",
            operands=tuple(re.findall(r"\([\d, ]*\)", groups.get("operands") or "")),
            refusal=found.string,
            kind=kind,
        )

    return build


_SHAPES = r"(?P<operands>(?:\([\d, ]*\)(?:, | and |\.)?)+)"
_KNOWN: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], Event | None]], ...] = (
    (
        re.compile(r"Invalid dtype for `(?:swap|addupdate)`\. Ref dtype: (?P<ref>\w+)\. Value dtype: (?P<value>\w+)"),
        _stored_dtype,
    ),
    (
        re.compile(
            r"Invalid shape for `(?:swap|addupdate)`\. Ref shape: \((?P<ref>[\d, ]*)\)\. "
            r"Expected shape: \((?P<moved>[\d, ]*)\)\. Value shape: \((?P<value>[\d, ]*)\)"
        ),
        _stored_shape,
    ),
    (
        re.compile(
            r"`indices` must not be longer than `shape`: indices=\((?P<given>.*)\), shape=\((?P<shape>[\d, ]*)\)"
        ),
        _index,
    ),
    (re.compile(r"pallas_call (?P<name>\S+) at .* captures constants \[(?P<types>.*)\]\. You should"), _capture),
    (re.compile(r"Index map function (?P<name>\S+) at .* must not capture constants: (?P<types>.*)"), _map_capture),
    (
        re.compile(
            r"input_output_aliases contains the mapping '(?P<i>\d+):(?P<o>\d+)' referring to input\S* with abstract "
            r"value (?P<given>\S+) and to output\S* with a different abstract value (?P<wanted>\S+?)\.?$"
        ),
        _alias,
    ),
    (
        re.compile(r" for (?P<name>\S+) must return integer scalars\. Output\[\d+\] has type ~?(?P<type>\w+)\["),
        _block_index,
    ),
    (
        re.compile(r"Expected source shape to be \((?P<wanted>[\d, ]*)\), but got \((?P<moved>[\d, ]*)\)"),
        _gpu_copy,
    ),
    (re.compile(r"(?P<function>tp\.\w+): (?P<rest>expected operands of one element type, .*)"), _portable("dtype")),
    (
        re.compile(r"(?P<function>tp\.\w+): (?P<rest>expected (?:inner dims|two matrices|an accumulator).*)"),
        _portable("shape"),
    ),
    (re.compile(rf"(?P<function>\w+) got incompatible shapes for broadcasting: {_SHAPES}"), _operation("shape")),
    (
        re.compile(rf"(?P<function>dot_general) requires .* to have the same shape, got {_SHAPES}"),
        _operation("shape"),
    ),
    (re.compile(r"Cannot (?P<function>concatenate) arrays with shapes that differ"), _operation("shape")),
    (re.compile(rf"cannot (?P<function>reshape) array of shape {_SHAPES} \(size"), _operation("shape")),
    (re.compile(rf"Incompatible shapes for broadcasting: (?:shapes=)?[\[(]?{_SHAPES}"), _operation("shape")),
    (re.compile(r"(?P<function>lax\.\w+) requires arguments to have the same dtypes, got"), _operation("dtype")),
    (re.compile(r"(?P<function>\w+) body function carry .*so the dtypes do not match"), _operation("dtype")),
    (re.compile(r"(?P<function>\w+) body function carry .*so the shapes do not match"), _operation("shape")),
)

_RETURNS = re.compile(r"must return \d+ values to match block_shape=.* Currently returning (?P<count>\d+) values")
_CALL = re.compile(r"takes \d+ positional arguments? but \d+ (?:was|were) given|missing \d+ required positional arg")


def _of_index_map(error: Exception, words: str) -> Refusal | None:
    """An index map that takes or returns the wrong number of values."""
    traced = tracebacks.map_being_traced(error)
    if traced is None or traced.function is None or not hasattr(traced.function, "__code__"):
        return None
    code = traced.function.__code__
    returns = _RETURNS.search(words)
    if returns is None and not _CALL.search(words):
        return None
    event = IndexMap(
        name=traced.origin,
        role="out" if traced.origin.startswith("output") else "in",
        grid=sizes(traced.grid),
        parameters=len(list(_positional(traced.function))) if returns is None else traced.takes,
        results=int(returns["count"]) if returns else None,
        prefetched=traced.takes - len(traced.grid),
        block=tuple("squeezed" if isinstance(d, str) else None if d is None else Size.of(d) for d in traced.block),
        array=tuple(Size.of(d) for d in traced.array),
    )
    return Refusal(event, Place(file=code.co_filename, line=code.co_firstlineno), words)


def _positional(function: Callable[..., object]) -> Iterator[inspect.Parameter]:
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            yield parameter
