"""The operations that a chip's compiler refuses, by element types: read from a generated table.

The table is written by ``python -m benchmarks.operations``, which asks the compilers.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from typedpallas.chips import Target
from typedpallas.dims import Size
from typedpallas.events import Access, Applied, Context

_FILE = "refused_operations.tsv"
_HEADER = "# Written by `python -m benchmarks.operations` from the compilers' answers. Operation, targets, words.\n"
_VERSION = "# jax "
_AXES = ("axes", "axis", "dimension", "dimensions", "permutation")
"""The parameters that say along which axes an operation works."""
_MORE = ("reverse", "num_keys", "y", "rounding_method")
"""Parameters that make another operation of it."""
_LONGEST = 120
_ALIKE = {"h200": "h100"}
"""Targets for which the compiler of another makes the same code."""
_AS_WIDE = dict.fromkeys(("int16", "uint16", "float16"), "bfloat16") | {"uint8": "int8"}
"""A type that was asked about, as wide as one that was not: a lookup moves bits."""
_ASKED = ("float32", "int32")
_NO_LOWERING = "Unimplemented primitive"
"""What Pallas says where it has nothing for an operation, of whatever type."""
_OF_INTEGERS = frozenset(["and", "or", "xor", "not", "clz", "population_count", "shift_left", "shift_right_logical"])
"""Operations that no floating type has anywhere."""


@dataclass(frozen=True)
class Refusal:
    """What the table has against an operation."""

    words: str
    """The compiler's."""
    instead: str | None
    """A 32-bit type on which the target takes it; none if there is none."""
    certain: bool
    """Whether the installed JAX is the one whose compilers were asked."""
    asked: str
    """That JAX's version."""


def refusal(event: Applied | Access, context: Context) -> Refusal | None:
    """What the table says about an operation on the context's target; none if it has nothing against it."""
    if context.target is None or context.backend == "mosaic_gpu":
        return None
    rows = _of_target(context.target)
    name = f"get {event.ref.dtype}" if isinstance(event, Access) else key(event)
    name = next((other for other in (name, *_same_answer(name, rows)) if other in rows), "")
    if not name:
        return None
    taken = (kind for kind, other in _on_32_bits(name) if other != name and other not in rows)
    asked = _asked_version()
    return Refusal(rows[name], next(taken, None), asked == _installed(), asked)


def _same_answer(name: str, rows: Mapping[str, str]) -> Iterator[str]:
    """Keys that have the answer for a type that was not asked about.

    What no type has, this one has not; words are looked up as words, whatever their sign.
    """
    operation, _, types = name.partition(" ")
    if operation.startswith("gather"):
        kind = types.partition(",")[0]
        yield f"{operation} int32" if kind == "uint32" else name.replace(kind, _AS_WIDE.get(kind, kind))
    if "," not in types and " -> " not in types:
        yield from (other for kind in _ASKED if _NO_LOWERING in rows.get(other := f"{operation} {kind}", ""))


def _of_target(target: Target) -> Mapping[str, str]:
    """What the target refuses; of a GPU that was not asked, what all those that were asked refuse."""
    name = _ALIKE.get(target.name, target.name)
    if name in table() or target.machine == "tpu":
        return table().get(name, {})
    asked = [operations for other, operations in table().items() if not other.startswith("tpu")]
    common = set.intersection(*(set(operations) for operations in asked)) if asked else set()
    return {operation: asked[0][operation] for operation in common}


def _on_32_bits(name: str) -> Iterator[tuple[str, str]]:
    """The same operation, by its key, on 32-bit types: of the same kind, signed, floating; each type and key."""
    operation, _, types = name.partition(" ")
    kinds = types.replace(" -> ", ",").split(",")
    made = kinds.pop() if " -> " in types else None
    settled = operation in _OF_INTEGERS or any("float" in kind for kind in kinds)
    for change in (_same_kind, _signed, *(() if settled else (_floating,))):
        wide = list(dict.fromkeys(change(kind) for kind in kinds))
        result = made if made is None or made in ("bool", "int32") else change(made)
        arrow = f" -> {result}" if result is not None and [result] != wide else ""
        yield next(kind for kind in wide if kind != "bool"), f"{operation} {','.join(wide)}{arrow}"


def _same_kind(kind: str) -> str:
    if kind == "bool":
        return kind
    return "float32" if "float" in kind else "uint32" if kind.startswith("uint") else "int32"


def _signed(kind: str) -> str:
    return _same_kind(kind).removeprefix("u")


def _floating(kind: str) -> str:
    return kind if kind == "bool" else "float32"


def key(event: Applied) -> str:
    """What tells an operation from others of its name: axes counted from the last, element types.

    ``reduce_max[-1] bfloat16``; a result of another type follows an arrow.
    """
    kinds = list(dict.fromkeys(operand.dtype for operand in event.operands))
    made = event.results[0].dtype if event.results else ""
    types = ",".join(kinds) + (f" -> {made}" if [made] != kinds else "")
    return f"{event.primitive}{_variant(event)} {types}"


def _variant(event: Applied) -> str:
    rank = len(event.operands[0].shape) if event.operands else 0
    parts = []
    for name in _AXES:
        value = event.parameters.get(name)
        values = value if isinstance(value, tuple) else () if value is None else (value,)
        if values and all(isinstance(item, int) for item in values):
            parts.append(",".join(str(item - rank) for item in values))
    parts += [f"{name}={event.parameters[name]}" for name in _MORE if event.parameters.get(name)]
    if event.primitive == "gather":
        parts.append(_gathered(event))
    if event.primitive == "concatenate" and _single_columns(event):
        parts.append("columns of 1")
    return f"[{';'.join(parts)}]" if parts else ""


def _gathered(event: Applied) -> str:
    axis = looked_up(event)
    return "other" if axis is None else str(axis)


def looked_up(event: Applied) -> int | None:
    """The axis that a lookup like `jnp.take_along_axis` follows, counted from the last; none of any other gather."""
    numbers = event.parameters.get("dimension_numbers")
    rank = len(event.operands[0].shape)
    batched = set(getattr(numbers, "operand_batching_dims", ()))
    along = tuple(getattr(numbers, "start_index_map", ()))
    if len(along) == 1 and batched == set(range(rank)) - {along[0]}:
        return int(along[0]) - rank
    return None


def _single_columns(event: Applied) -> bool:
    return all(bool(operand.shape) and operand.shape[-1] == Size.of(1) for operand in event.operands)


@functools.cache
def _text() -> str:
    from importlib import resources  # here, as `metadata` below: they bring 20 modules, and most runs never ask

    return (resources.files(__package__) / _FILE).read_text()


@functools.cache
def table() -> Mapping[str, Mapping[str, str]]:
    """Target to the operations that it refuses, each with the compiler's words."""
    return parsed(_text())


@functools.cache
def _asked_version() -> str:
    return next((line.removeprefix(_VERSION) for line in _text().splitlines() if line.startswith(_VERSION)), "")


@functools.cache
def _installed() -> str:
    from importlib import metadata

    try:
        return metadata.version("jax")
    except metadata.PackageNotFoundError:
        return ""


def path() -> Path:
    """The table's file."""
    return Path(__file__).with_name(_FILE)


def parsed(text: str) -> dict[str, dict[str, str]]:
    """The table in a text: target to operation to the compiler's words."""
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            operation, targets, words = line.split("\t")
            for target in targets.split(","):
                found.setdefault(target, {})[operation] = words
    return found


def written(rows: Mapping[str, Mapping[str, str]]) -> str:
    """The table as text, with the first target's words; the installed JAX is taken for the one that was asked."""
    grouped: dict[tuple[bool, str], list[str]] = {}
    for target, operations in rows.items():
        for operation in operations:
            grouped.setdefault((target.startswith("tpu"), operation), []).append(target)
    lines = []
    for (_, operation), targets in sorted(grouped.items()):
        words = " ".join(rows[targets[0]][operation].split())[:_LONGEST].rstrip()
        lines.append(f"{operation}\t{','.join(targets)}\t{words}\n")
    return f"{_HEADER}{_VERSION}{_installed()}\n" + "".join(lines)
