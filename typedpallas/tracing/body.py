"""What a kernel's body does: every load and store, through loops, branches and scoped buffers, with its line."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from typedpallas.dims import Size
from typedpallas.events import Access, Backend, Context, RefFact, Shape
from typedpallas.tracing import jaxapi
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall

type Refs = Mapping[Any, RefFact]
"""The refs in scope, by JAX's variable."""

_LOADS = ("get", "masked_load", "load")
_STORES = ("swap", "addupdate", "masked_swap")


@dataclass(frozen=True)
class _Scope:
    """Where the walk is: the kernel's name, its backend, and the refs that the jaxpr's variables stand for."""

    kernel: str
    backend: Backend | None
    refs: Refs


def events(kernel: KernelCall, context: Context) -> Iterator[Located]:
    """The accesses of the body, in program order; each branch and each loop body is walked once."""
    refs = {
        var: RefFact(name=op.name, space=op.space, dtype=op.dtype, shape=sizes(op.shape))
        for var, op in zip(kernel.jaxpr.invars, kernel.operands, strict=True)
    }
    yield from _walk(kernel.jaxpr, _Scope(kernel.name, kernel.backend, refs))


def sizes(shape: tuple[int | None, ...] | None) -> Shape | None:
    """A shape in numbers as the rules take it."""
    return None if shape is None else tuple(None if d is None else Size.of(d) for d in shape)


def _walk(jaxpr: Any, scope: _Scope) -> Iterator[Located]:
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in _LOADS or name in _STORES:
            yield from _access(eqn, name, scope)
        for inner in jaxapi.inner_jaxprs(eqn):
            yield from _walk(inner, _entered(eqn, inner, scope))


def _access(eqn: Any, name: str, scope: _Scope) -> Iterator[Located]:
    ref = scope.refs.get(eqn.invars[0])
    if ref is None:
        return
    if name in _LOADS:
        event = Access(op="load", ref=ref, moved=sizes(jaxapi.shape_of(eqn.outvars[0].aval)))
    else:
        value = eqn.invars[1].aval
        shape = sizes(jaxapi.shape_of(value))
        event = Access(op="store", ref=ref, moved=shape, value_shape=shape, value_dtype=jaxapi.dtype_name(value))
    yield Located(event, jaxapi.place(eqn), scope.kernel)


def _entered(eqn: Any, inner: Any, scope: _Scope) -> _Scope:
    """The scope of a jaxpr inside ``eqn``: what its variables stand for; refs made there get their own fact."""
    refs: dict[Any, RefFact] = {}
    scoped = eqn.primitive.name == "run_scoped"
    inputs, outer = (inner.constvars, eqn.invars) if scoped else (inner.invars, _outer_operands(eqn, inner))
    for var, operand in zip(inputs, outer, strict=True):
        known = scope.refs.get(operand) if operand is not None and not jaxapi.is_literal(operand) else None
        if known is not None:
            refs[var] = known
    if scoped:
        refs.update(_allocated(inner, scope))
    return _Scope(scope.kernel, scope.backend, refs)


def _outer_operands(eqn: Any, inner: Any) -> list[Any]:
    """The operands of ``eqn`` that the inner jaxpr's inputs stand for; none where that is not known."""
    name, count = eqn.primitive.name, len(inner.invars)
    operands: list[Any] = list(eqn.invars)
    if name == "cond":
        operands = operands[1:]
    elif name == "while":
        split = eqn.params["cond_nconsts"]
        if inner is jaxapi.open_jaxpr(eqn.params["cond_jaxpr"]):
            operands = operands[:split] + operands[split + eqn.params["body_nconsts"] :]
        else:
            operands = operands[split:]
    return operands if len(operands) == count else [None] * count


def _allocated(inner: Any, scope: _Scope) -> dict[Any, RefFact]:
    names = inner.debug_info.arg_names or ()
    return {
        var: RefFact(
            name=names[i] if len(names) == len(inner.invars) else f"scoped[{i}]",
            space=jaxapi.space_of(var.aval, scope.backend),
            dtype=jaxapi.dtype_name(var.aval),
            shape=sizes(jaxapi.shape_of(var.aval)),
        )
        for i, var in enumerate(inner.invars)
    }
