"""Expressions to `Static`: literals, dims, element types, tuples of these, once-bound variables, typed arrays.

Nothing is run. What is not understood is `NOTHING`, and the call that needs it is then open.
"""

from __future__ import annotations

from typing import Any

from mypy.nodes import (
    CallExpr,
    EllipsisExpr,
    Expression,
    FloatExpr,
    IndexExpr,
    IntExpr,
    ListExpr,
    MemberExpr,
    NameExpr,
    OpExpr,
    RefExpr,
    SliceExpr,
    StrExpr,
    TupleExpr,
    UnaryExpr,
    Var,
)
from mypy.types import Instance, TupleType, Type, TypeVarType, get_proper_type

from typedpallas.dims import Size
from typedpallas_mypy import names
from typedpallas_mypy.bindings import bindings
from typedpallas_mypy.facts import Types
from typedpallas_mypy.static import NOTHING, AnyInt, Constant, Cut, DTypeOf, Group, Like, Named, Static, Window
from typedpallas_mypy.value import Value

_DEPTH = 20
_WORDS = {"True": True, "False": False, "None": None}
_LIBRARIES = ("jax.", "numpy.", "math.", "jaxlib.")
_BUILTIN_TYPES = ("builtins.float", "builtins.int", "builtins.bool", "builtins.complex")


class Evaluator:
    """Reads expressions for one hook call."""

    def __init__(self, api: Any, types: Types) -> None:
        self.api = api
        self.types = types

    def static(self, expression: Expression, kind: Type | None = None, depth: int = 0) -> Static:
        """What the expression is; ``kind`` is its type, where the caller has it."""
        if depth > _DEPTH:
            return NOTHING
        if isinstance(kind, Instance) and kind.type.fullname == names.BLOCK:
            return self.of_type(kind)
        written = self._written(expression, depth)
        if not isinstance(written, type(NOTHING)):
            return written
        kind = kind if kind is not None else self._type(expression)
        return NOTHING if kind is None else self.of_type(kind)

    def size(self, expression: Expression, kind: Type | None = None) -> Size | None:
        """The size that an expression is, if it is one; negative numbers too."""
        return as_size(self.static(expression, kind))

    def _type(self, expression: Expression) -> Type | None:
        found: Type | None = self.api.lookup_type(expression) if self.api.has_type(expression) else None
        return found

    # ------------------------------------------------------------------ by type

    def of_type(self, kind: Type) -> Static:
        """What a value of this type is."""
        kind = get_proper_type(kind)
        if isinstance(kind, Instance) and kind.type.fullname == names.BLOCK:
            value = self.types.value(kind)
            return NOTHING if value is None else value
        if isinstance(kind, TupleType):
            return Group("tuple", tuple(self._item_of_type(item) for item in kind.items))
        size = self.types.size(kind) if not isinstance(kind, TypeVarType) or self._is_dim(kind) else None
        if size is not None:
            return Constant.of(size.const) if size.const is not None else size
        if isinstance(kind, Instance) and kind.type.fullname == "builtins.list" and len(kind.args) == 1:
            return NOTHING
        ref = self.types.ref(kind)
        if ref is not None:
            return Like(Value(ref.dtype, ref.shape, parameter=self.types.element_parameter(kind)))
        value = self.types.value(kind)
        return NOTHING if value is None else value

    def _item_of_type(self, kind: Type) -> Static:
        """A part of a tuple: a number there may be an axis or a size, so it must not become an array."""
        item = self.of_type(kind)
        return AnyInt() if isinstance(item, Value) and item.weak and item.dtype == "int" else item

    def _is_dim(self, parameter: TypeVarType) -> bool:
        return self.types.family(parameter) is None and self.types.value(parameter.upper_bound) is not None

    # ------------------------------------------------------------------ by the words

    def _written(self, e: Expression, depth: int) -> Static:
        if isinstance(e, IntExpr | FloatExpr | StrExpr):
            return Constant.of(e.value)
        if isinstance(e, EllipsisExpr):
            return Constant.of(...)
        if isinstance(e, TupleExpr | ListExpr):
            items = tuple(self._item(item, depth) for item in e.items)
            return Group("tuple" if isinstance(e, TupleExpr) else "list", items)
        if isinstance(e, SliceExpr):
            parts = (e.begin_index, e.end_index, e.stride)
            return Cut(*(Constant.of(None) if p is None else self.static(p, depth=depth + 1) for p in parts))
        if isinstance(e, UnaryExpr):
            return self._unary(e.op, self.static(e.expr, depth=depth + 1))
        if isinstance(e, OpExpr):
            left, right = (self.static(side, depth=depth + 1) for side in (e.left, e.right))
            return arithmetic(e.op, left, right)
        if isinstance(e, IndexExpr):
            return self._indexed(e, depth)
        if isinstance(e, CallExpr):
            return self._called(e, depth)
        return self._name(e, depth) if isinstance(e, RefExpr) else NOTHING

    def _item(self, e: Expression, depth: int) -> Static:
        item = self.static(e, depth=depth + 1)
        return AnyInt() if isinstance(item, Value) and item.weak and item.dtype == "int" else item

    def _unary(self, op: str, operand: Static) -> Static:
        if isinstance(operand, Constant) and operand.kind in (int, float) and op in ("-", "+"):
            return Constant.of(-operand.value if op == "-" else operand.value)  # type: ignore[operator]
        return -operand if isinstance(operand, Size) and op == "-" else NOTHING

    def _indexed(self, e: IndexExpr, depth: int) -> Static:
        base, index = self.static(e.base, depth=depth + 1), self.static(e.index, depth=depth + 1)
        if not isinstance(base, Group) or not isinstance(index, Constant) or index.kind is not int:
            return NOTHING
        at = index.value
        return base.items[at] if isinstance(at, int) and -len(base.items) <= at < len(base.items) else NOTHING

    def _called(self, e: CallExpr, depth: int) -> Static:
        name = e.callee.fullname if isinstance(e.callee, RefExpr) else ""
        if name.startswith("jax.") and name.rpartition(".")[2] in ("ds", "dslice"):
            return self._window(e, depth)
        if not e.args or any(n is not None for n in e.arg_names):
            return NOTHING
        if name == "builtins.len" and len(e.args) == 1:
            group = self.static(e.args[0], depth=depth + 1)
            return Constant.of(len(group.items)) if isinstance(group, Group) else NOTHING
        if name.rpartition(".")[2] == "cdiv" and name.startswith("jax.") and len(e.args) == 2:
            a, b = (as_size(self.static(arg, depth=depth + 1)) for arg in e.args)
            return NOTHING if a is None or b is None or b.const == 0 else _static_size(a.cdiv(b))
        return NOTHING

    def _window(self, e: CallExpr, depth: int) -> Static:
        """``pl.ds(start, size)``; ``pl.ds(size)`` starts at 0."""
        named = dict(zip(e.arg_names, e.args, strict=True))
        placed = [arg for arg, name in zip(e.args, e.arg_names, strict=True) if name is None]
        size = named.get("size") or (placed[1] if len(placed) > 1 else placed[0] if placed else None)
        if size is None:
            return NOTHING
        start = named.get("start") or (placed[0] if len(placed) > 1 or "size" in named else None)
        strided = len(placed) > 2 or "stride" in named
        begin: Static = NOTHING if strided else Constant.of(0)
        if start is not None and not strided:
            begin = self.static(start, depth=depth + 1)
        return Window(self.static(size, depth=depth + 1), begin)

    def _name(self, e: RefExpr, depth: int) -> Static:
        if isinstance(e, NameExpr) and e.name in _WORDS and e.fullname == f"builtins.{e.name}":
            return Constant.of(_WORDS[e.name])
        if e.fullname in _BUILTIN_TYPES:
            return Named(e.fullname)
        if e.fullname.startswith(_LIBRARIES) and not (isinstance(e.node, Var) and e.node.is_self):
            return Named(e.fullname)
        if isinstance(e, MemberExpr):
            return self._member(e, depth)
        if not isinstance(e.node, Var):
            return NOTHING
        if e.node.final_value is not None:
            return Constant.of(e.node.final_value)
        bound = bindings(self.api.tree).get(e.node, [])
        if len(bound) != 1 or bound[0] is None:
            return NOTHING
        found = self._written(bound[0], depth + 1)
        return found if _is_fixed(found) else NOTHING

    def _member(self, e: MemberExpr, depth: int) -> Static:
        if e.name not in ("dtype", "shape", "ndim", "size"):
            return NOTHING
        owner = self.static(e.expr, depth=depth + 1)
        value = owner.value if isinstance(owner, Like) else owner
        if not isinstance(value, Value) or value.weak:
            return NOTHING
        if e.name == "dtype":
            return DTypeOf(value)
        if value.shape is None:
            return NOTHING
        dims = tuple(AnyInt() if size is None else _static_size(size) for size in value.shape)
        if e.name == "shape":
            return Group("tuple", dims)
        if e.name == "ndim":
            return Constant.of(len(dims))
        total = Size.of(1)
        for size in value.shape:
            if size is None:
                return AnyInt()
            total = total * size
        return _static_size(total)


def _is_fixed(item: Static) -> bool:
    """Whether what a variable was bound to is still what it is: no array and nothing unknown is inside."""
    if isinstance(item, Group):
        return item.kind == "tuple" and all(_is_fixed(part) for part in item.items)
    return isinstance(item, Constant | Size | Named | DTypeOf | Window)


def _static_size(size: Size) -> Static:
    return size if size.const is None else Constant.of(size.const)


def as_size(item: Static) -> Size | None:
    """A whole number as a `Size`; none if it is something else."""
    if isinstance(item, Size):
        return item
    return Size.of(item.value) if isinstance(item, Constant) and item.kind is int else None  # type: ignore[arg-type]


def arithmetic(op: str, left: Static, right: Static) -> Static:
    """``left op right`` for whole numbers, and ``+`` for tuples."""
    if isinstance(left, Group) and isinstance(right, Group) and op == "+" and left.kind == right.kind:
        return Group(left.kind, left.items + right.items)
    a, b = as_size(left), as_size(right)
    if a is None or b is None:
        return NOTHING
    if op == "+":
        return _static_size(a + b)
    if op == "-":
        return _static_size(a - b)
    if op == "*":
        return _static_size(a * b)
    return _static_size(a // b) if op == "//" and b.const != 0 else NOTHING
