"""Parts of a kernel's refs as its body takes them, kept until a launch tells how the refs lie in memory."""

from __future__ import annotations

from typing import Any, Literal

from mypy import nodes as n

from typedpallas.dims import Size
from typedpallas.events import RefFact
from typedpallas.records import record
from typedpallas_mypy.bindings import definition
from typedpallas_mypy.facts import Types
from typedpallas_mypy.forms import Form
from typedpallas_mypy.handlers import calls_uses
from typedpallas_mypy.handlers.calls_source import arguments, function_name
from typedpallas_mypy.starts import Reader

type Op = Literal["load", "store", "view"]


@record(frozen=True)
class Taken:
    """What an index takes of one dim: ``size`` elements from ``start``; all of it where ``start`` is none."""

    start: Form | None = None
    size: Form | None = None
    squeezed: bool = False


@record(frozen=True)
class Noted:
    """One index of a kernel's own ref."""

    node: n.IndexExpr
    op: Op
    ref: RefFact
    parts: tuple[Taken, ...]
    types: Types
    """The translation that the sizes' names are of."""


def taken(api: Any, types: Types, ref: RefFact, node: n.Context, op: Op) -> tuple[n.FuncDef, Noted] | None:
    """An index that takes a part of a kernel's own ref, with the kernel; none for one that is plainly fine."""
    if not isinstance(node, n.IndexExpr) or ref.shape is None or not _may_matter(node.index, op):
        return None
    base = node.base.expr if op == "view" and isinstance(node.base, n.MemberExpr) else node.base
    function = _owner(api, base)
    parts = _parts(Reader(api, types), node.index, ref) if function is not None else None
    return None if function is None or parts is None else (function, Noted(node, op, ref, parts, types))


def _may_matter(index: n.Expression, op: Op) -> bool:
    """Whether some part may start at what is no constant; of a view, at anything but the beginning."""
    items = index.items if isinstance(index, n.TupleExpr) else [index]
    return not all(_is_plain(item, op) for item in items)


def _is_plain(item: n.Expression, op: Op) -> bool:
    if isinstance(item, n.EllipsisExpr):
        return True
    if isinstance(item, n.SliceExpr):
        return op != "view" or (item.begin_index is None and item.end_index is None)
    return isinstance(item, n.IntExpr) and op != "view"


def _owner(api: Any, base: n.Expression) -> n.FuncDef | None:
    """The function around that a ref is a parameter of; none for a name that is given something else, too."""
    variable = base.node if isinstance(base, n.NameExpr) else None
    if not isinstance(variable, n.Var) or len(calls_uses.uses(api.tree).values.get(variable, ())) != 1:
        return None
    for item in api.scope.stack:
        if isinstance(item, n.FuncDef) and any(argument.variable is variable for argument in item.arguments):
            return item
    return None


def _parts(reader: Reader, index: n.Expression, ref: RefFact) -> tuple[Taken, ...] | None:
    """What is taken of each dim; none where that can't be said."""
    index, rank = definition(reader.api, index), len(ref.shape or ())
    items = list(index.items) if isinstance(index, n.TupleExpr) else [index]
    dots = [i for i, item in enumerate(items) if isinstance(item, n.EllipsisExpr)]
    missing = rank - (len(items) - len(dots))
    if len(dots) > 1 or missing < 0:
        return None
    at = dots[0] if dots else len(items)
    filled: list[n.Expression | None] = [*items[:at], *[None] * missing, *items[at + len(dots) :]]
    found = [_taken(reader, item, size) for item, size in zip(filled, ref.shape or (), strict=True)]
    return tuple(part for part in found if part is not None) if None not in found else None


def _taken(reader: Reader, item: n.Expression | None, extent: Size | None) -> Taken | None:
    if item is None:
        return Taken()
    if isinstance(item, n.SliceExpr):
        return _cut(reader, item, extent)
    found = definition(reader.api, item)
    name = function_name(found)
    if isinstance(found, n.CallExpr) and name.startswith("jax.") and name.rpartition(".")[2] in ("ds", "dslice"):
        return _window(reader, found)
    if isinstance(found, n.CallExpr) and name == "builtins.slice":
        return Taken() if _is_all(found) else None
    return Taken(reader.form(item), Form.of(1), squeezed=True) if reader.is_scalar(item) else None


def _is_all(call: n.CallExpr) -> bool:
    """Whether it is ``slice(None)``."""
    return all(isinstance(arg, n.NameExpr) and arg.fullname == "builtins.None" for arg in call.args)


def _window(reader: Reader, call: n.CallExpr) -> Taken | None:
    """``pl.ds(start, size)``; ``pl.ds(size)`` starts at 0."""
    given = arguments(call, ("start", "size", "stride"))
    if given is None or "start" not in given or "stride" in given:
        return None
    if "size" not in given:
        return Taken(Form.of(0), reader.form(given["start"]))
    return Taken(reader.form(given["start"]), reader.form(given["size"]))


def _cut(reader: Reader, cut: n.SliceExpr, extent: Size | None) -> Taken | None:
    """A slice of Python's: of numbers that are known, not negative, and one apart."""
    ends = (cut.begin_index, cut.end_index)
    if cut.stride is not None or any(e is not None and reader.evaluator.size(e) is None for e in ends):
        return None
    if cut.begin_index is None and cut.end_index is None:
        return Taken()
    begin = Size.of(0) if cut.begin_index is None else reader.evaluator.size(cut.begin_index)
    end = extent if cut.end_index is None else reader.evaluator.size(cut.end_index)
    if begin is None or end is None or any(size.const is not None and size.const < 0 for size in (begin, end)):
        return None
    return Taken(Form.of(begin), Form.of(end - begin))
