"""A `pallas_call` as it is written: its grid, its specs and buffers, in the order in which the kernel gets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from mypy import nodes as n
from mypy.plugin import FunctionContext
from mypy.types import TupleType, get_proper_type

from typedpallas.dims import Size
from typedpallas.records import record
from typedpallas.spaces import MemorySpace
from typedpallas_mypy.handlers import scoped, specs
from typedpallas_mypy.handlers.calls_source import Source, arguments, function_name
from typedpallas_mypy.handlers.specs import Buffer, Spec

PALLAS_CALL: Final = "jax._src.pallas.pallas_call.pallas_call"
_GRID_SPECS: Final = ("GridSpec", "PrefetchScalarGridSpec")
_NAMES: Final = ("kernel", "out_shape")


@record(frozen=True)
class Part:
    """One ref of the call. ``given`` is none where it is there but not readable."""

    role: Literal["prefetch", "in", "out", "scratch"]
    given: Spec | Buffer | None
    array: Buffer | None = None
    """The whole array, where known: an output's from ``out_shape``, an input's from the call's own argument."""
    where: str = ""
    """What messages call it where the kernel's parameter is not known."""
    semaphore: type[MemorySpace] | None = None
    """Of which kind, where it is a semaphore or an array of them."""


@record(frozen=True)
class Site:
    """A `pallas_call` as written. None: not known."""

    node: n.Context
    grid: tuple[Size | None, ...] | None
    prefetch: int | None
    inputs: tuple[Spec | None, ...] | None
    outputs: tuple[Spec | None, ...] | None
    arrays: tuple[Buffer, ...] | None
    scratch: tuple[Buffer | None, ...] | None
    parameters: bool
    """Whether it has compiler parameters; they may say which core of a TPU it is for."""
    semaphores: tuple[type[MemorySpace] | None, ...] = ()
    """The kinds of those among ``scratch`` that are semaphores; as long as ``scratch`` where that is known."""
    operands: tuple[Buffer | None, ...] = ()
    """The arrays that it is called with at once, ``pl.pallas_call(...)(x, y)``; empty where it is not."""

    def parts(self) -> tuple[Part, ...] | None:
        """Every ref in the kernel's order; as far as its place in the order is known."""
        if self.prefetch is None or self.inputs is None:
            return None
        operands = self.operands
        if len(operands) != self.prefetch + len(self.inputs):
            operands = (None,) * (self.prefetch + len(self.inputs))
        found = [Part("prefetch", None, array) for array in operands[: self.prefetch]]
        inputs = enumerate(zip(self.inputs, operands[self.prefetch :], strict=True))
        found += [Part("in", spec, array, f"in_specs[{i}]") for i, (spec, array) in inputs]
        if self.arrays is None:
            return tuple(found)
        windows: Sequence[Spec | None] = self.outputs if self.outputs is not None else ()
        padded = [*windows, *[None] * len(self.arrays)]
        pairs = enumerate(zip(padded, self.arrays, strict=False))
        found += [Part("out", spec, array, f"out_specs[{i}]") for i, (spec, array) in pairs]
        kinds = self.semaphores or (None,) * len(self.scratch or ())
        own = zip(self.scratch or (), kinds, strict=True)
        return tuple(found) + tuple(Part("scratch", buffer, semaphore=kind) for buffer, kind in own)


def given(context: FunctionContext) -> dict[str, n.Expression] | None:
    """The arguments by name: of the call itself, or of the `functools.partial` that decorates the kernel."""
    node = context.context
    if isinstance(node, n.CallExpr):
        return arguments(node, _NAMES) if function_name(node).endswith(".pallas_call") else None
    if not isinstance(node, n.Decorator):
        return None
    for decorator in node.decorators:
        if isinstance(decorator, n.CallExpr) and function_name(decorator) == "functools.partial":
            found = arguments(decorator, ("function",))
            function = (found or {}).get("function")
            if found is not None and isinstance(function, n.RefExpr) and function.fullname == PALLAS_CALL:
                return found
    return None


def site(source: Source, given: dict[str, n.Expression], node: n.Context) -> Site | None:
    """The call with these arguments; none where its grid spec is not there to read."""
    prefetch: int | None = 0
    inner = given
    if "grid_spec" in given and not specs.is_none(source, given["grid_spec"]):
        call = source.definition(given["grid_spec"])
        name = function_name(call)
        if not isinstance(call, n.CallExpr) or name.rpartition(".")[2] not in _GRID_SPECS or "jax." not in name:
            return None
        scalar = name.endswith(".PrefetchScalarGridSpec")
        order = ("grid", "in_specs", "out_specs", "scratch_shapes")
        read = arguments(call, (("num_scalar_prefetch",) if scalar else ()) + order)
        if read is None:
            return None
        inner = read
        count = source.size(read["num_scalar_prefetch"]) if "num_scalar_prefetch" in read else Size.of(0)
        prefetch = count.const if count is not None else None
    out_shape = given.get("out_shape")
    arrays = specs.outputs(source, out_shape) if out_shape is not None else None
    return Site(
        node=node,
        grid=_grid(source, inner.get("grid")),
        prefetch=prefetch,
        inputs=_specs(source, inner.get("in_specs")),
        outputs=_out_specs(source, inner.get("out_specs")),
        arrays=None if arrays is None else tuple(arrays),
        scratch=_scratch(source, inner.get("scratch_shapes")),
        semaphores=_semaphores(source, inner.get("scratch_shapes")),
        parameters="compiler_params" in given,
        operands=_operands(source, node),
    )


def _operands(source: Source, node: n.Context) -> tuple[Buffer | None, ...]:
    """The arguments of the call of the call; each is an array only where its type says so."""
    call = source.uses.called.get(node) if isinstance(node, n.CallExpr) else None
    if call is None or any(kind != n.ARG_POS for kind in call.arg_kinds):
        return ()
    return tuple(specs.operand(source, argument) for argument in call.args)


def _grid(source: Source, expression: n.Expression | None) -> tuple[Size | None, ...] | None:
    if expression is None:
        return ()
    items = source.items(expression)
    if items is not None:
        return None if _named_axes(source, items) else tuple(source.size(item) for item in items)
    if source.is_int(expression):
        return (source.size(expression),)
    kind = source.type_of(expression)
    kind = get_proper_type(kind) if kind is not None else None
    if isinstance(kind, TupleType) and all(source.types.value(item) is not None for item in kind.items):
        return (None,) * len(kind.items)
    return None


def _named_axes(source: Source, items: Sequence[n.Expression]) -> bool:
    return any(isinstance(source.definition(item), n.TupleExpr) for item in items)


def _specs(source: Source, expression: n.Expression | None) -> tuple[Spec | None, ...] | None:
    items = source.items(expression) if expression is not None else None
    return None if items is None else tuple(specs.block_spec(source, item) for item in items)


def _out_specs(source: Source, expression: n.Expression | None) -> tuple[Spec | None, ...] | None:
    """The block specs of the outputs: a sequence, or a single one."""
    if expression is None:
        return None
    several = _specs(source, expression)
    if several is not None:
        return several
    single = specs.block_spec(source, expression)
    return None if single is None else (single,)


def _scratch(source: Source, expression: n.Expression | None) -> tuple[Buffer | None, ...] | None:
    if expression is None:
        return ()
    items = source.items(expression)
    return None if items is None else tuple(specs.scratch(source, item) for item in items)


def _semaphores(source: Source, expression: n.Expression | None) -> tuple[type[MemorySpace] | None, ...]:
    items = source.items(expression) if expression is not None else None
    return tuple(scoped.semaphore(source, item) for item in items or ())
