"""`wgmma-shape`."""

from collections.abc import Iterator
from dataclasses import dataclass

from typedpallas.events import Context, Event, MatrixOperand, MatrixProduct
from typedpallas.rules import _products
from typedpallas.rules.base import Example, Finding, Rule

_HALF_ROWS = 64
_MOST_COLUMNS = 256
_TWICE = 512
"""The one N above 256 that `tcgen05_mma` takes: twice 256."""
_COLUMN_STEP = 8
_FINE_COLUMNS = 32
"""Up to here `wgmma` takes integers in steps of 8 columns too."""
_STEP_BYTES = 32
"""Bytes of K of one instruction, and the smallest swizzle."""
_TRANSPOSED_BYTES = 2
"""Only elements of this size may lie the other way round for `wgmma`."""


@dataclass(frozen=True)
class _Demand:
    what: str
    expected: str
    found: str
    help: str


class WgmmaShape(Rule):
    """A matrix product of a shape, of element types or with a transpose that the matrix unit's instruction lacks.

    `wgmma` (Hopper): M is a multiple of 64, N of 8 and at most 256; a 32-byte slice of K is one instruction. The
    contiguous dim of an operand in shared memory is a multiple of 32 bytes. Only 16-bit operands may lie the other
    way round, the rest must be contiguous along K; where both lie the other way round, K is a multiple of the tile
    that the swizzle makes. Sums are float32; float16 for float16 and 8-bit floats; int32 for 8-bit integers, where N
    is a multiple of 16 beyond 32. `tcgen05_mma` (Blackwell): M is 64 or 128, N at most 256, or 512, and a multiple of
    16 for integers; it takes 8-bit operands either way round, and no float32. On compute capability 10.3 (B300) it
    takes no integers ("Feature '.kind::i8' not supported on .target 'sm_103a'").

    Machines: GPU (Mosaic GPU). Source: its lowering, which refuses some of these as "Failed to infer a possible set
    of layouts", and the assembler, asked over shapes, types and transposes on h100 and b200, over types on b300.
    """

    slug = "wgmma-shape"
    judges = (MatrixProduct,)
    message = "`{instruction}` has no such product, {what}: expected {expected}, found {found}"
    example = Example(bad=_products.module(k=40), good=_products.module(k=48), targets=("h100",))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, MatrixProduct)
        if not _products.judged(event, context) or not event.plain or event.collective:
            return
        for demand in _demands(event, _products.sums(event, context)):
            yield self.refuted(
                instruction=event.instruction,
                what=demand.what,
                expected=demand.expected,
                found=demand.found,
                help=demand.help,
            )


def _demands(event: MatrixProduct, known: dict[str, tuple[str, ...]]) -> Iterator[_Demand]:
    types = _types(event, known)
    if types is not None:
        yield types
        return
    yield from _extents(event)
    wrong = [*_layout(event, event.a, "M"), *_layout(event, event.b, "N")]
    yield from wrong or _contracted(event)


def _types(event: MatrixProduct, known: dict[str, tuple[str, ...]]) -> _Demand | None:
    kind, sums = event.a.dtype, event.acc.dtype
    if kind is None or sums is None:
        return None
    if kind not in known:
        wider = "cast it to `jnp.bfloat16`" if kind in _CAST else "cast it to one of these"
        return _Demand("by its operands' type", _list(known), f"`{kind}`", wider)
    if sums not in known[kind]:
        advice = f"accumulate in `jnp.{known[kind][0]}`, and cast the result"
        return _Demand(f"by its sum of `{kind}` products", _list(known[kind]), f"`{sums}`", advice)
    if event.a.space is None and kind == "float32":
        return _Demand("with its left operand in registers", "an operand of at most 16 bits", "`float32`", _STORE)
    return None


_CAST = ("float32", "int8", "uint8")
_STORE = "store it to a `plgpu.SMEM` buffer first"


def _extents(event: MatrixProduct) -> Iterator[_Demand]:
    m, n, k = event.extents
    size = _products.item_bytes(event.a.dtype)
    if m is not None and m % _HALF_ROWS:
        yield _Demand("by its rows", f"M a multiple of {_HALF_ROWS}", f"{m}", _near(m, _HALF_ROWS, "M"))
    if n is not None:
        yield from _columns(event, n)
    if k is not None and size is not None and k * size % _STEP_BYTES:
        step = _STEP_BYTES // size
        what = f"K a multiple of {step} ({_STEP_BYTES} bytes)"
        yield _Demand("by what it contracts", what, f"{k}", _near(k, step, "K"))


def _columns(event: MatrixProduct, n: int) -> Iterator[_Demand]:
    integers = event.acc.dtype == "int32"
    fine = integers and event.instruction == "wgmma" and n <= _FINE_COLUMNS
    step = 2 * _COLUMN_STEP if integers and not fine else _COLUMN_STEP
    if n % step:
        beyond = f" beyond {_FINE_COLUMNS}" if integers and event.instruction == "wgmma" else ""
        kind = f" for integers{beyond}" if integers else ""
        yield _Demand("by its columns", f"N a multiple of {step}{kind}", f"{n}", _near(n, step, "N"))
    elif n > _MOST_COLUMNS and not (event.instruction == "tcgen05_mma" and n == _TWICE):
        most = f"N of at most {_MOST_COLUMNS}" + ("" if event.instruction == "wgmma" else f", or {_TWICE}")
        yield _Demand("by its columns", most, f"{n}", "split the product along N, one accumulator for each part")


def _layout(event: MatrixProduct, operand: MatrixOperand, along: str) -> Iterator[_Demand]:
    """How an operand lies in shared memory."""
    size = _products.item_bytes(operand.dtype)
    _, minor = _products.stored(operand)
    if not _products.other_way(operand, along) or size is None:
        return
    what = f"by how `{operand.name}` lies in memory"
    if size != _TRANSPOSED_BYTES and event.instruction == "wgmma":
        yield _Demand(
            what,
            f"`{operand.dtype}` contiguous along K",
            f"contiguous along {along}",
            "keep the array the other way round in memory and hand the product `.transpose((1, 0))` of its buffer",
        )
    elif minor is not None and minor % _COLUMN_STEP == 0 and minor * size % _STEP_BYTES:
        step = _STEP_BYTES // size
        found = f"{minor} ({minor * size} bytes)"
        yield _Demand(what, f"{along} a multiple of {step} ({_STEP_BYTES} bytes)", found, _near(minor, step, along))


def _contracted(event: MatrixProduct) -> Iterator[_Demand]:
    """What the swizzle of operands that are not contiguous along K asks of K."""
    k, size = event.extents[2], _products.item_bytes(event.a.dtype)
    swizzle = _products.swizzle_across(event)
    if k is None or size is None or swizzle is None or k * size % _STEP_BYTES:
        return
    step = swizzle // size
    if k % step:
        what = f"K a multiple of {step} (tiles of {swizzle} bytes)"
        advice = (
            f"use a multiple of {step} for K, or give the operands' buffers `plgpu.SwizzleTransform({_STEP_BYTES})`"
        )
        yield _Demand(
            "by how its operands lie in memory", what, f"{k}", f"{advice} and tiles of (8, {_STEP_BYTES // size})"
        )


def _near(found: int, step: int, what: str) -> str:
    below, above = found // step * step, -(-found // step) * step
    return f"use {' or '.join(str(size) for size in (below, above) if size)} for {what}"


def _list(kinds: object) -> str:
    names = [f"`{kind}`" for kind in kinds]  # type: ignore[attr-defined]
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
