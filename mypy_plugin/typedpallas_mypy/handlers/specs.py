"""Pallas's own specs as written in the source: block specs, index maps, scratch buffers, output shapes.

Everything may be unknown, and then says so; nothing here reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from mypy import nodes as n
from mypy.types import Instance, NoneType, Type, get_proper_type

from typedpallas import dtypes, gpu, tpu
from typedpallas.dims import Size
from typedpallas.events import Shape
from typedpallas.records import record
from typedpallas.spaces import MemorySpace
from typedpallas_mypy.handlers.calls_source import Source, arguments, function_name

_SHAPED: Final = "jax._src.core.ShapeDtypeStruct"
_BLOCK_DIMS: Final = ("Blocked", "Element", "BoundedSlice")


@record(frozen=True)
class Dim:
    """One dim of a block. ``size`` is none where unknown; ``squeezed`` is none where it may be either."""

    size: Size | None
    squeezed: bool | None
    node: n.Expression
    blocked: bool = True
    """Whether the index map counts in blocks of it (not so for `pl.Element`)."""


@record(frozen=True)
class IndexMapText:
    """An index map: the numbers of arguments that it can take, and of indices that it returns."""

    node: n.Expression
    fewest: int
    most: int | None
    results: int | None
    values: tuple[Size | None, ...] | None
    """The indices over ``g0, g1, ...``, where there is one return and they are arithmetic on the arguments."""


@record(frozen=True)
class Spec:
    """A block spec. ``block`` is none if the whole array or unknown, as ``whole`` says."""

    node: n.Expression
    block: tuple[Dim, ...] | None
    whole: bool
    index_map: IndexMapText | None
    space: type[MemorySpace] | Literal["default"] | None
    """None: unknown."""
    space_node: n.Expression

    @property
    def ref(self) -> tuple[Dim, ...] | None:
        """The dims that the kernel sees; none if not known which."""
        if self.block is None or any(dim.squeezed is None for dim in self.block):
            return None
        return tuple(dim for dim in self.block if not dim.squeezed)


@record(frozen=True)
class Buffer:
    """A scratch buffer or an output array: its shape and element type (JAX's name), as far as known."""

    node: n.Expression
    dims: tuple[Dim, ...] | None
    dtype: str | None
    dtype_node: n.Expression
    space: type[MemorySpace] | None = None

    @property
    def shape(self) -> Shape | None:
        """Sizes of the dims."""
        return None if self.dims is None else tuple(dim.size for dim in self.dims)


def block_spec(source: Source, expression: n.Expression) -> Spec | None:
    """The block spec that an expression is; none if it is not there to read."""
    call = source.definition(expression)
    if not isinstance(call, n.CallExpr) or function_name(call).rpartition(".")[2] != "BlockSpec":
        return None
    if not function_name(call).startswith("jax."):
        return None
    given = arguments(call, ("block_shape", "index_map", "pipeline_mode"))
    if given is None:
        return None
    shape = given.get("block_shape")
    whole = shape is None or is_none(source, shape)
    space = given.get("memory_space")
    return Spec(
        node=expression,
        block=None if whole or shape is None else dims(source, shape),
        whole=whole,
        index_map=index_map(source, given["index_map"]) if "index_map" in given else None,
        space="default" if space is None or is_none(source, space) else memory_space(source, space),
        space_node=space if space is not None else expression,
    )


def is_none(source: Source, expression: n.Expression) -> bool:
    """Whether an expression is ``None`` for sure."""
    found = source.definition(expression)
    return isinstance(found, n.NameExpr) and found.fullname == "builtins.None"


def dims(source: Source, expression: n.Expression) -> tuple[Dim, ...] | None:
    """The dims of a shape that is written out."""
    items = source.items(expression)
    return None if items is None else tuple(_dim(source, item) for item in items)


def _dim(source: Source, expression: n.Expression) -> Dim:
    if is_none(source, expression):
        return Dim(None, True, expression)
    found = source.definition(expression)
    if isinstance(found, n.RefExpr) and found.fullname.rpartition(".")[2] == "squeezed":
        return Dim(None, True, expression)
    kind = function_name(found).rpartition(".")[2] if function_name(found).startswith("jax.") else ""
    if kind == "Squeezed":
        return Dim(None, True, expression)
    if kind in _BLOCK_DIMS and isinstance(found, n.CallExpr) and found.args:
        return Dim(source.size(found.args[0]), False, expression, blocked=kind == "Blocked")
    size = source.size(expression)
    known = size is not None or source.is_int(expression)
    return Dim(size, False if known else None, expression)


# ---------------------------------------------------------------------- index maps


def index_map(source: Source, expression: n.Expression) -> IndexMapText | None:
    """The index map that an expression is: a lambda, or a function of this file."""
    found = source.definition(expression)
    function: n.FuncItem | None = found if isinstance(found, n.LambdaExpr) else None
    if isinstance(found, n.RefExpr) and isinstance(found.node, n.FuncDef):
        function = found.node
    if function is None or (isinstance(function, n.FuncDef) and (function.is_generator or function.info)):
        return None
    kinds = [argument.kind for argument in function.arguments]
    fewest = kinds.count(n.ARG_POS)
    most = None if n.ARG_STAR in kinds else fewest + kinds.count(n.ARG_OPT)
    if n.ARG_NAMED in kinds:
        return None
    return IndexMapText(expression, fewest, most, _results(function), _values(source, function))


def _values(source: Source, function: n.FuncItem) -> tuple[Size | None, ...] | None:
    body = function.body.body
    only = body[0].expr if len(body) == 1 and isinstance(body[0], n.ReturnStmt) else None
    if not isinstance(only, n.TupleExpr) or any(isinstance(item, n.StarExpr) for item in only.items):
        return None
    required = [argument for argument in function.arguments if argument.kind == n.ARG_POS]
    source.known = {argument.variable: Size.of(f"g{i}") for i, argument in enumerate(required)}
    values = tuple(source.size(item) for item in only.items)
    source.known = {}
    return values


def _results(function: n.FuncItem) -> int | None:
    """How many indices every return of a function gives; none where they differ or cannot be told."""
    counts = {_count(function, value) for value in _returns(function.body.body)}
    return next(iter(counts)) if len(counts) == 1 else None


def _returns(statements: Sequence[n.Statement]) -> list[n.Expression | None]:
    """The values of all return statements of a body, nested functions apart; a none for what is not understood."""
    found: list[n.Expression | None] = []
    for statement in statements:
        if isinstance(statement, n.ReturnStmt):
            found.append(statement.expr)
        elif isinstance(statement, n.IfStmt):
            for block in (*statement.body, *([statement.else_body] if statement.else_body else [])):
                found += _returns(block.body)
        elif isinstance(statement, n.Block):
            found += _returns(statement.body)
        elif isinstance(statement, n.WhileStmt | n.ForStmt | n.WithStmt | n.TryStmt | n.MatchStmt):
            found.append(None)
    return found


def _count(function: n.FuncItem, value: n.Expression | None) -> int | None:
    if isinstance(value, n.TupleExpr | n.ListExpr):
        return None if any(isinstance(item, n.StarExpr) for item in value.items) else len(value.items)
    if isinstance(value, n.IntExpr):
        return 1
    own = {argument.variable for argument in function.arguments if argument.kind == n.ARG_POS}
    return 1 if isinstance(value, n.NameExpr) and value.node in own and isinstance(function, n.LambdaExpr) else None


# ---------------------------------------------------------------------- spaces, element types, buffers


def memory_space(source: Source, expression: n.Expression) -> type[MemorySpace] | None:
    """The space that an expression names; none if unknown, or if it is `pl.ANY`, which is any machine's."""
    found = source.definition(expression)
    if not isinstance(found, n.RefExpr):
        return None
    module, _, name = found.fullname.rpartition(".")
    if isinstance(found, n.MemberExpr) and not found.fullname and isinstance(found.expr, n.RefExpr):
        module, name = found.expr.fullname, found.name
    if not module.startswith("jax.") or "pallas" not in module:
        return None
    machine = gpu if "gpu" in module else tpu if "tpu" in module or "mosaic.core" in module else None
    space = getattr(machine, name, None) if machine is not None else None
    return space if isinstance(space, type) and issubclass(space, MemorySpace) and space.data else None


def dtype(source: Source, expression: n.Expression) -> str | None:
    """JAX's name of the element type that an expression is."""
    found = source.definition(expression)
    if isinstance(found, n.StrExpr):
        return found.value if dtypes.from_jax_name(found.value) else None
    if isinstance(found, n.MemberExpr) and found.name == "dtype":
        kind = source.type_of(found.expr)
        value = source.types.value(kind) if kind is not None else None
        return value.dtype if value is not None and not value.weak else None
    if not isinstance(found, n.RefExpr) or not found.fullname.startswith(("jax.numpy.", "numpy.", "ml_dtypes.")):
        return None
    name = found.fullname.rpartition(".")[2]
    name = "bool" if name == "bool_" else name
    return name if dtypes.from_jax_name(name) else None


def scratch(source: Source, expression: n.Expression) -> Buffer | None:
    """The scratch buffer that an expression asks for: ``pltpu.VMEM((BM, BN), jnp.float32)``."""
    call = source.definition(expression)
    if not isinstance(call, n.CallExpr):
        return None
    space = memory_space(source, call.callee)
    given = arguments(call, ("shape", "dtype"))
    if space is None or given is None or "shape" not in given or "dtype" not in given:
        return None
    return Buffer(expression, dims(source, given["shape"]), dtype(source, given["dtype"]), given["dtype"], space)


def outputs(source: Source, expression: n.Expression) -> list[Buffer] | None:
    """The arrays of ``out_shape``; none if not known how many."""
    items = source.items(expression)
    if items is None and not _one_array(source, expression):
        return None
    found = items if items is not None else (expression,)
    return [_array(source, item) for item in found]


def _one_array(source: Source, expression: n.Expression) -> bool:
    if function_name(source.definition(expression)) == _SHAPED:
        return True
    kind = source.type_of(expression)
    return kind is not None and is_array(kind)


def is_array(kind: Type) -> bool:
    """Whether a type is that of one array, or of something with an array's shape and element type."""
    kind = get_proper_type(kind)
    if isinstance(kind, NoneType) or not isinstance(kind, Instance):
        return False
    return kind.type.has_base("jax._src.basearray.Array") or kind.type.fullname == _SHAPED


def operand(source: Source, expression: n.Expression) -> Buffer | None:
    """The typed array that an expression is: a parameter's annotation counts, though mypy comes to it later."""
    kind = source.type_of(expression)
    if kind is None and isinstance(expression, n.NameExpr) and isinstance(expression.node, n.Var):
        kind = expression.node.type if source.uses.values.get(expression.node) == [None] else None
    value = source.types.value(kind) if kind is not None else None
    if value is None or value.weak or value.shape is None:
        return None
    return Buffer(expression, tuple(Dim(size, False, expression) for size in value.shape), value.dtype, expression)


def _array(source: Source, expression: n.Expression) -> Buffer:
    call = source.definition(expression)
    if isinstance(call, n.CallExpr) and function_name(call) == _SHAPED:
        given = arguments(call, ("shape", "dtype")) or {}
        shape, element = given.get("shape"), given.get("dtype")
        return Buffer(
            expression,
            dims(source, shape) if shape is not None else None,
            dtype(source, element) if element is not None else None,
            element if element is not None else expression,
        )
    return Buffer(expression, None, None, expression)
