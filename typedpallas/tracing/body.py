"""What a kernel's body does: every load, store and operation, through loops, branches and scoped buffers."""

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from typedpallas.diagnostics import Place
from typedpallas.dims import Size
from typedpallas.events import (
    Access,
    Applied,
    ArrayType,
    Backend,
    Context,
    Index,
    Placement,
    RefFact,
    Shape,
)
from typedpallas.tracing import copies, declared, jaxapi
from typedpallas.tracing.located import Located
from typedpallas.tracing.uses import data as uses_data
from typedpallas.tracing.walk import KernelCall

type Refs = Mapping[Any, RefFact]
"""The refs in scope, by JAX's variable."""

_ACCESSES = ("get", "swap", "addupdate", "masked_load", "masked_swap")
_WITH_FUNCTION = ("reduce", "scatter", "scatter-add", "sort", "select_and_scatter_add", "reduce_window")
"""Operations that carry a small function on scalars: it is not lowered on its own."""
_COPIES = {"dma_start": copies.events, "semaphore_read": copies.reading}
_CONTROL = ("cond", "while", "scan", "run_scoped", "jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call")


@dataclass(frozen=True)
class _Scope:
    """Where the walk is: the kernel's name, its backend, and the refs that the jaxpr's variables stand for."""

    kernel: str
    backend: Backend | None
    refs: Refs
    data: set[Any] = field(default_factory=set)
    """The variables that come from memory or from program ids."""
    semantics: Any = None
    """Which of Mosaic GPU's lowerings the kernel asks for; none elsewhere."""
    around: "tuple[_Scope, Any] | None" = None
    """The equation around it, with the scope that it is in."""
    kept: dict[int, RefFact] = field(default_factory=dict)
    """The refs that were met, by their `id`."""

    def place_of(self, eqn: Any) -> Place:
        """An equation's line; that of the equation around it where no person wrote it, as in `pltpu.sync_copy`."""
        found = jaxapi.place(eqn)
        if found.file or self.around is None:
            return found
        scope, outer = self.around
        return scope.place_of(outer)

    def number(self, ref: RefFact) -> int:
        """A number that tells a ref from the others of the kernel."""
        self.kept.setdefault(id(ref), ref)
        return id(ref)


def events(kernel: KernelCall, context: Context) -> Iterator[Located]:
    """What the body does in program order; each branch and each loop body is walked once."""
    directions = declared.directions(kernel.source)
    refs = {
        var: RefFact(
            name=op.name, space=op.space, dtype=op.dtype, shape=sizes(op.shape), direction=directions.get(op.name)
        )
        for var, op in zip(kernel.jaxpr.invars, kernel.operands, strict=True)
    }
    semantics = getattr(kernel.compiler_params, "lowering_semantics", None)
    yield from _walk(kernel.jaxpr, _Scope(kernel.name, kernel.backend, refs, semantics=semantics))


def sizes(shape: tuple[int | None, ...] | None) -> Shape | None:
    """A shape in numbers as the rules take it."""
    return None if shape is None else tuple(None if d is None else Size.of(d) for d in shape)


def _walk(jaxpr: Any, scope: _Scope) -> Iterator[Located]:
    needed = {id(eqn) for eqn in uses_data.needed(jaxpr)}
    for eqn in jaxpr.eqns:
        name, on_data = eqn.primitive.name, uses_data.depends(eqn, scope.data)
        gone = uses_data.vanishes(eqn)
        computed = on_data and gone is None and id(eqn) in needed
        place = functools.partial(scope.place_of, eqn)
        if name in _ACCESSES:
            yield from _access(eqn, scope, place)
        else:
            kind = None if name in _CONTROL else _kind(eqn, computed)
            yield Located(functools.partial(_applied, eqn, scope, computed), place, scope.kernel, kind)
        if name in _COPIES:
            for event in _COPIES[name](eqn, scope.refs):
                yield Located(event, place, scope.kernel)
        if on_data and gone != "constant":
            scope.data.update(eqn.outvars)
        if name not in _WITH_FUNCTION:
            for inner in jaxapi.inner_jaxprs(eqn):
                entered = _entered(eqn, inner, scope)
                if name == "run_scoped":
                    yield from _placements(inner, entered, eqn)
                yield from _walk(inner, entered)


def _placements(inner: Any, scope: _Scope, eqn: Any) -> Iterator[Located]:
    """The buffers that ``run_scoped`` makes."""
    for var in inner.invars:
        space = jaxapi.declared_space(var.aval) or scope.refs[var].space
        if space is not None:
            placement = Placement(name=scope.refs[var].name, space=space, role="scratch")
            yield Located(placement, scope.place_of(eqn), scope.kernel)


def _access(eqn: Any, scope: _Scope, place: Callable[[], Place]) -> Iterator[Located]:
    """A load or store.

    JAX has checked the value against the view that it goes to, so its shape is what the index selects, and its type
    that of the view (which `ref.bitcast` may have made another than the buffer's).
    """
    buffer, stored = jaxapi.accessed(eqn)
    ref = scope.refs.get(buffer)
    if ref is None:
        return
    moved = (eqn.outvars[0] if stored is None else stored).aval
    kind = "access", scope.number(ref), stored is None, moved.shape, moved.dtype
    yield Located(functools.partial(_moved, ref, moved, stored is None), place, scope.kernel, kind)
    dtypes = jaxapi.index_dtypes(eqn)
    if dtypes:
        rank = len(ref.shape or ())
        index = Index(name=ref.name, given=rank, rank=rank, dtypes=dtypes)
        yield Located(index, place, scope.kernel, ("index", rank, dtypes))


def _moved(ref: RefFact, moved: Any, loaded: bool) -> Access:
    """The event of a load or a store; ``moved``: JAX's type of what is loaded or stored."""
    shape, dtype = sizes(jaxapi.shape_of(moved)), jaxapi.dtype_name(moved)
    ref = replace(ref, dtype=dtype)
    if loaded:
        return Access(op="load", ref=ref, moved=shape)
    return Access(op="store", ref=ref, moved=shape, value_shape=shape, value_dtype=dtype)


def _kind(eqn: Any, on_data: bool) -> Hashable:
    """What two operations have in common that are judged alike; none where JAX's parameters can't be compared."""
    types = tuple([None if jaxapi.is_ref(atom.aval) else _type(atom.aval) for atom in (*eqn.invars, *eqn.outvars)])
    kind = eqn.primitive, len(eqn.invars), types, tuple(eqn.params.items()), on_data
    try:
        hash(kind)
    except TypeError:
        return None
    return kind


def _type(aval: Any) -> tuple[Any, Any]:
    return getattr(aval, "shape", None), getattr(aval, "dtype", None)


def _applied(eqn: Any, scope: _Scope, on_data: bool) -> Applied:
    return Applied(
        primitive=eqn.primitive.name,
        operands=tuple(_arrays(eqn.invars)),
        results=tuple(_arrays(eqn.outvars)),
        parameters=eqn.params,
        lowered=jaxapi.has_lowering(eqn, scope.backend, scope.semantics),
        known=not any(jaxapi.is_ref(atom.aval) for atom in eqn.invars) or jaxapi.is_known_on_refs(eqn),
        on_data=on_data,
    )


def _arrays(variables: Any) -> Iterator[ArrayType]:
    for variable in variables:
        aval = variable.aval
        if not jaxapi.is_ref(aval):
            found = _array(jaxapi.shape_of(aval), jaxapi.dtype_name(aval))
            if found is not None:
                yield found


@functools.lru_cache(maxsize=4096)
def _array(shape: tuple[int | None, ...] | None, dtype: str | None) -> ArrayType | None:
    known = sizes(shape)
    return None if known is None or dtype is None else ArrayType(shape=known, dtype=dtype)


def _entered(eqn: Any, inner: Any, scope: _Scope) -> _Scope:
    """The scope of a jaxpr inside ``eqn``: what its variables stand for; refs made there get their own fact."""
    refs: dict[Any, RefFact] = {}
    scoped = eqn.primitive.name == "run_scoped"
    inputs, outer = (inner.constvars, eqn.invars) if scoped else (inner.invars, outer_operands(eqn, inner))
    for var, operand in zip(inputs, outer, strict=False):
        known = scope.refs.get(operand) if operand is not None and not jaxapi.is_literal(operand) else None
        if known is not None:
            refs[var] = known
    if scoped:
        refs.update(_allocated(inner, scope))
    data = uses_data.inner(inputs, outer, scope.data)
    return replace(scope, refs=refs, data=data, around=(scope, eqn))


def outer_operands(eqn: Any, inner: Any) -> list[Any]:
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
    elif name not in _CONTROL:
        return [None] * count
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
