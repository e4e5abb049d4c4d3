"""Calls of what moves data on a GPU, and of its matrix units: spaces, shapes, element types, boxes of copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from mypy import nodes as n
from mypy.plugin import FunctionSigContext
from mypy.types import CallableType, Type, get_proper_type

from typedpallas import gpu, solve
from typedpallas.dims import Size
from typedpallas.dtypes import from_jax_name
from typedpallas.events import (
    Argument,
    BulkCopy,
    Event,
    MatrixOperand,
    MatrixProduct,
    Operation,
    RefFact,
    Shape,
)
from typedpallas.spaces import MemorySpace
from typedpallas_mypy import answer, report, scope
from typedpallas_mypy.facts import ANY, Types
from typedpallas_mypy.handlers.calls_source import Source, arguments, function_name
from typedpallas_mypy.handlers.copies import Given, given
from typedpallas_mypy.hooks import Hooks
from typedpallas_mypy.value import Value

_SPACES: Final[dict[str, dict[str, type[MemorySpace]]]] = {
    "copy_gmem_to_smem": {"src": gpu.GMEM, "dst": gpu.SMEM, "barrier": gpu.Barrier},
    "copy_smem_to_gmem": {"src": gpu.SMEM, "dst": gpu.GMEM},
    "async_copy_smem_to_tmem": {"src": gpu.SMEM, "dst": gpu.TMEM},
    "async_load_tmem": {"src": gpu.TMEM},
    "async_store_tmem": {"dst": gpu.TMEM, "ref": gpu.TMEM},
}
"""Where each function wants its refs, by its own names for them."""
_PRODUCTS: Final[dict[str, Literal["wgmma", "tcgen05_mma"]]] = {"wgmma": "wgmma", "tcgen05_mma": "tcgen05_mma"}
_PLAIN: Final = {"acc", "a", "b", "barrier", "accumulate"}
"""The arguments of a product that is nothing more: no scales, nothing sparse, no second block."""
_FP8: Final = ("float8_e4m3fn", "float8_e5m2")

type _Found = tuple[Event, str]


def _signature(context: FunctionSigContext) -> CallableType:
    """Judge a call; what a rule refuses is not refused again by the argument's type.

    JAX annotates an accumulator with a class of its own, which none of ours is.
    """
    signature, call = context.default_signature, context.context
    callee = call.callee if isinstance(call, n.CallExpr) else None
    if not isinstance(callee, n.RefExpr) or not scope.typed(context.api):
        return signature
    source = Source(context.api, Types(context.api))
    name = callee.fullname.rpartition(".")[2]
    kinds = [[context.api.get_expression_type(e) for e in expressions] for expressions in context.args]
    found = given(source.types, signature.arg_names, context.args, kinds)
    refused = {"acc"} if "acc" in found and _may_be(found["acc"].ref.space, gpu.ACC, gpu.TMEM) else set()
    places: dict[str, n.Context] = {part: one.place for part, one in found.items()}
    for event, part in _events(source, name, found, _values(source.types, signature, context.args, kinds), context):
        place = places.get(part, call)
        if report.judge(context.api, event, source.types.facts, {"": place}):
            refused |= {part} if part else {"acc", "a", "b"}
    pairs = zip(signature.arg_names, signature.arg_types, strict=True)
    return signature.copy_modified(arg_types=[ANY if name in refused else kind for name, kind in pairs])


def _values(
    types: Types, signature: CallableType, args: Sequence[Sequence[n.Expression]], kinds: Sequence[Sequence[Type]]
) -> dict[str, Value]:
    """The arguments that are arrays in registers."""
    found = {}
    for name, actual in zip(signature.arg_names, kinds, strict=False):
        value = types.value(get_proper_type(actual[0])) if len(actual) == 1 else None
        if name is not None and value is not None:
            found[name] = value
    return found


def _may_be(space: type[MemorySpace] | None, *wanted: type[MemorySpace]) -> bool:
    return space is None or space.machine is None or any(issubclass(space, one) for one in wanted)


def _events(
    source: Source, name: str, found: Mapping[str, Given], values: Mapping[str, Value], context: FunctionSigContext
) -> Iterator[_Found]:
    if name in _PRODUCTS:
        yield from _product(source, name, found, values, context)
        return
    misplaced = False
    for part, wanted in _SPACES[name].items():
        ref = found[part].ref if part in found else None
        if ref is not None and not _may_be(ref.space, wanted):
            misplaced = True
            expected = RefFact(name=part, space=wanted, dtype=None, shape=None)
            yield Argument(kernel=name, ref=expected, source="", space=ref.space, what="argument"), part
    if name.startswith("copy_") and not misplaced:
        copy = _copy(source, name, found, len(context.args))
        if copy is not None:
            yield copy, "src"


# ---------------------------------------------------------------------- matrix products


def _product(
    source: Source, name: str, found: Mapping[str, Given], values: Mapping[str, Value], context: FunctionSigContext
) -> Iterator[_Found]:
    operands = {part: _operand(part, found, values) for part in ("acc", "a", "b")}
    a, b = operands["a"], operands["b"]
    acc = operands["acc"] or MatrixOperand(name="the accumulator", space=None, dtype=None, shape=None)
    if a is None or b is None:
        return
    arguments_given = zip(context.default_signature.arg_names, context.args, strict=False)
    plain = {part for part, expressions in arguments_given if expressions} <= _PLAIN
    shapes = [_shape(part, found, values) for part in ("acc", "a", "b")]
    wrong = _disagreement(source.types, name, [acc, a, b], shapes) if plain else None
    if wrong is not None:
        yield wrong, ""
        return
    yield MatrixProduct(instruction=_PRODUCTS[name], a=a, b=b, acc=acc, plain=plain, collective=not plain), ""


def _operand(part: str, found: Mapping[str, Given], values: Mapping[str, Value]) -> MatrixOperand | None:
    """An operand; of a view that may be turned round no more than its space is known."""
    if part in found:
        ref, place = found[part].ref, found[part].place
        straight = isinstance(place, n.NameExpr) or _is_selected(place)
        space = None if ref.space is not None and ref.space.machine is None else ref.space
        if space is None:
            return None
        shape = _numbers(ref.shape) if straight else None
        return MatrixOperand(
            name=ref.name, space=space, dtype=ref.dtype if straight else None, shape=shape, part=True
        )
    if part in values:
        value = values[part]
        dtype = None if value.weak else value.dtype
        return MatrixOperand(name="a value", space=None, dtype=dtype, shape=_numbers(value.shape))
    return None


def _is_selected(place: n.Expression) -> bool:
    """``buffer.at[slot]``: a part in the same order."""
    if not isinstance(place, n.IndexExpr) or not isinstance(place.base, n.MemberExpr):
        return False
    return place.base.name == "at" and isinstance(place.base.expr, n.NameExpr)


def _numbers(shape: Shape | None) -> tuple[int | None, ...] | None:
    return None if shape is None else tuple(None if size is None else size.const for size in shape)


def _shape(part: str, found: Mapping[str, Given], values: Mapping[str, Value]) -> Shape | None:
    return found[part].ref.shape if part in found else values[part].shape if part in values else None


def _disagreement(
    types: Types, name: str, operands: Sequence[MatrixOperand], shapes: Sequence[Shape | None]
) -> Operation | None:
    """``(m, n) += (m, k) @ (k, n)``: what JAX refuses at once, for sizes that have names, too."""
    kinds = [operand.dtype for operand in operands]
    words = [answer.shown(types, Value(kind, shape)) for kind, shape in zip(kinds, shapes, strict=True)]
    if any(shape is not None and len(shape) != len(("rows", "columns")) for shape in shapes):
        return None
    (m, n), (rows, k), (depth, columns) = (shape if shape is not None else (None, None) for shape in shapes)
    if any(_differ(types, *pair) for pair in ((m, rows), (n, columns), (k, depth))):
        refusal = "an accumulator (m, n), a left operand (m, k) and a right one (k, n) are wanted"
        return Operation(function=name, operands=tuple(words), refusal=refusal, kind="shape")
    mixed = kinds[1] in _FP8 and kinds[2] in _FP8
    if kinds[1] is not None and kinds[2] is not None and kinds[1] != kinds[2] and not mixed:
        refusal = "both operands have one element type, but for the two kinds of 8-bit floats"
        return Operation(function=name, operands=tuple(words[1:]), refusal=refusal, kind="dtype")
    return None


def _differ(types: Types, left: Size | None, right: Size | None) -> bool:
    if left is None or right is None:
        return False
    return isinstance(solve.equal(left, right, types.facts), solve.Refuted)


# ---------------------------------------------------------------------- copies


def _copy(source: Source, name: str, found: Mapping[str, Given], count: int) -> BulkCopy | None:
    """A copy of a whole array, or of parts whose extents stand there as numbers."""
    outward = name == "copy_smem_to_gmem"
    whole, shared = ("dst", "src") if outward else ("src", "dst")
    if whole not in found or shared not in found:
        return None
    ref, marker = found[whole].ref, from_jax_name(found[whole].ref.dtype or "")
    box = _box(source, found[whole].place)
    if box is None or marker is None or not marker.bits:
        return None
    array, sizes, squeezed = box
    barrier = not outward and "barrier" in found
    known = outward or barrier  # without a barrier it may be threads that copy, for which other limits hold
    return BulkCopy(
        name=ref.name,
        shared=found[shared].ref.name,
        array=array if known else (None,) * len(array),
        box=sizes if known else (None,) * len(array),
        squeezed=squeezed,
        bits=marker.bits,
        tiling="unknown",
        outward=outward,
        barrier=barrier,
        promised=True,
    )


type _Box = tuple[tuple[int | None, ...], tuple[int | None, ...], tuple[bool, ...]]


def _box(source: Source, place: n.Expression) -> _Box | None:
    """The array's extents, those of the part that an expression selects, and which dims it takes away."""
    index = place.index if isinstance(place, n.IndexExpr) and _is_selected(place) else None
    base: Any = place
    while isinstance(base, n.IndexExpr | n.MemberExpr):
        base = base.base if isinstance(base, n.IndexExpr) else base.expr
    kind = source.type_of(base) if isinstance(base, n.NameExpr) else None
    ref = source.types.ref(kind) if kind is not None else None
    array = _numbers(ref.shape) if ref is not None else None
    if array is None or (index is None and place is not base):
        return None
    items = [] if index is None else index.items if isinstance(index, n.TupleExpr) else [index]
    parts = [_part(source, item) for item in items]
    if len(parts) > len(array) or None in parts:
        return None
    parts += [(None, False)] * (len(array) - len(parts))
    sizes = [whole if part[0] is None else part[0] for part, whole in zip(parts, array, strict=True) if part]
    return array, tuple(sizes), tuple(part[1] for part in parts if part is not None)


def _part(source: Source, item: n.Expression) -> tuple[int | None, bool] | None:
    """How much an index takes of its dim, none for all of it, and whether it takes the dim away."""
    if isinstance(item, n.SliceExpr):
        whole = item.begin_index is None and item.end_index is None and item.stride is None
        return (None, False) if whole else None
    if isinstance(item, n.CallExpr) and function_name(item).endswith(".ds"):
        size = (arguments(item, ("start", "size")) or {}).get("size")
        known = source.size(size) if size is not None else None
        return (known.const, False) if known is not None and known.const is not None else None
    if isinstance(item, n.IntExpr) or source.is_int(item):
        return (1, True)
    return None


_NAMES: Final = (*_SPACES, *_PRODUCTS)

HOOKS: Hooks = Hooks(
    function_signatures={
        **{f"jax._src.pallas.mosaic_gpu.primitives.{name}": _signature for name in _NAMES},
        **{f"typedpallas._gpu_copies.{name}": _signature for name in _NAMES},
    },
)
