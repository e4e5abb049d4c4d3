"""What a Mosaic GPU kernel asks of the matrix unit, of the copy engine and of its warps, in program order."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from typedpallas.events import (
    BarrierGroup,
    BlockLaunch,
    BulkCopy,
    Event,
    MatrixOperand,
    MatrixProduct,
    RegisterLoad,
    WarpReduction,
)
from typedpallas.tracing import jaxapi
from typedpallas.tracing.body import outer_operands
from typedpallas.tracing.gpu import refs as gpu_refs
from typedpallas.tracing.gpu import registers as gpu_registers
from typedpallas.tracing.gpu import starts as gpu_starts
from typedpallas.tracing.gpu.refs import View
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall

_PRODUCTS: dict[str, Literal["wgmma", "tcgen05_mma"]] = {"wgmma_ref": "wgmma", "tcgen05_mma": "tcgen05_mma"}
_COPIES = ("copy_gmem_to_smem", "copy_smem_to_gmem")
_PRODUCING = ("wgmma_ref", "tcgen05_mma", "mma", "async_load", "async_store")
_LAYOUTS = (*_PRODUCING, "layout_cast", "load", "inline_mgpu_p", "core_map", "broadcasted_iota")
"""Operations that may make the compiler tile a buffer for which the kernel asks for no tiling."""
_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min")
_BY_ROWS = ".WGMMA"
"""The layout that gives each warp some of the rows."""
_ORDERING = ("barrier_arrive", "semaphore_signal", "semaphore_wait")
"""With these warpgroups can wait for each other."""


def events(kernel: KernelCall) -> Iterator[Located]:
    """The launch, then all products, copies and reductions; each branch and each loop body is walked once."""
    if kernel.mesh is None or kernel.backend != "mosaic_gpu":
        return
    yield Located(_launch(kernel), kernel.place, kernel.name)
    pressure = gpu_registers.tightest(kernel)
    if pressure is not None:
        yield Located(pressure, kernel.place, kernel.name)
    if not _whole_warpgroups(kernel):
        return
    walk = _Walk(kernel)
    names = {var: op.name for var, op in zip(kernel.jaxpr.invars, kernel.operands, strict=False)}
    roots = {var: var for var in kernel.jaxpr.invars}
    yield from walk.events(kernel.jaxpr, _Scope(names, roots))


def _launch(kernel: KernelCall) -> BlockLaunch:
    mesh = kernel.mesh
    return BlockLaunch(
        kernel=kernel.name,
        warpgroups=mesh.num_threads or 1,
        cluster=tuple(mesh.cluster),
        grid=tuple(mesh.grid),
        names=tuple(str(name) if isinstance(name, str) else "" for name in mesh.grid_names),
    )


def _whole_warpgroups(kernel: KernelCall) -> bool:
    """Whether the body is lowered for whole warpgroups (the default): the rules' facts were measured so."""
    semantics = getattr(kernel.compiler_params, "lowering_semantics", None)
    return semantics is None or semantics.name == "Warpgroup"


@dataclass(frozen=True)
class _Scope:
    """What a jaxpr's refs are called, and the variables that made them."""

    names: Mapping[Any, str]
    roots: Mapping[Any, Any]
    alone: bool = False
    """Whether some warpgroups may not come here."""


class _Walk:
    """One walk through a kernel."""

    def __init__(self, kernel: KernelCall) -> None:
        self.kernel = kernel
        self.multiplied: Counter[Any] = Counter()
        """What makes the buffers that products read, and how often."""
        every = {eqn.primitive.name for eqn in _equations(kernel.jaxpr)}
        self.may_tile = not every.isdisjoint(_LAYOUTS)
        self.ordered = not every.isdisjoint(_ORDERING)
        self.thread_axis = kernel.mesh.thread_name if (kernel.mesh.num_threads or 1) > 1 else None
        self.starts = gpu_starts.starts(kernel)
        roots = {var: var for var in kernel.jaxpr.invars}
        self._collect(kernel.jaxpr, _Scope({}, roots))

    def _collect(self, jaxpr: Any, scope: _Scope) -> None:
        for eqn in jaxpr.eqns:
            if eqn.primitive.name in _PRODUCTS:
                views = gpu_refs.operands(eqn)
                self.multiplied.update(scope.roots.get(v.var) for name, v in views.items() if name in ("a", "b"))
            for inner in jaxapi.inner_jaxprs(eqn):
                self._collect(inner, self._entered(eqn, inner, scope))

    def events(self, jaxpr: Any, scope: _Scope, given: set[Any] | None = None) -> Iterator[Located]:
        """Everything in a jaxpr, inner ones included. ``given``: as `_split_by_rows` takes it."""
        threaded, by_rows = self._of_threads(jaxpr), _split_by_rows(jaxpr, given or set())
        for eqn in jaxpr.eqns:
            event = self._event(eqn, scope, by_rows)
            if event is not None:
                yield Located(event, jaxapi.place(eqn), self.kernel.name)
            for inner in jaxapi.inner_jaxprs(eqn):
                if eqn.primitive.name == "run_scoped":
                    yield from self._barriers(eqn, inner)
                entered = self._entered(eqn, inner, scope)
                if eqn.primitive.name == "cond" and self.thread_axis is not None:
                    known = not jaxapi.is_literal(eqn.invars[0]) and eqn.invars[0] in threaded
                    entered = _Scope(entered.names, entered.roots, scope.alone or known or not threaded)
                yield from self.events(inner, entered, _handed_on(eqn, inner, by_rows))

    def _barriers(self, eqn: Any, inner: Any) -> Iterator[Located]:
        for name, var in zip(gpu_refs.scoped_names(inner), inner.invars, strict=True):
            shape = jaxapi.shape_of(var.aval)
            if jaxapi.dtype_name(var.aval) == "barrier" and shape is not None:
                group = BarrierGroup(name=name, count=math.prod(dim or 1 for dim in shape))
                place = jaxapi.place(eqn)
                yield Located(group, place if place.file else self.kernel.place, self.kernel.name)

    def _of_threads(self, jaxpr: Any) -> set[Any]:
        """The variables of a jaxpr that may differ between warpgroups; its inputs count."""
        found = set(jaxpr.invars) | set(jaxpr.constvars)
        for eqn in jaxpr.eqns:
            own = eqn.primitive.name == "axis_index" and eqn.params.get("axis_name") == self.thread_axis
            if own or any(not jaxapi.is_literal(atom) and atom in found for atom in eqn.invars):
                found.update(eqn.outvars)
        return found

    def _event(self, eqn: Any, scope: _Scope, by_rows: set[Any]) -> Event | None:
        name = eqn.primitive.name
        if name in _PRODUCTS:
            return self._product(eqn, scope)
        if name in _COPIES:
            return self._copy(eqn, scope)
        if name == "get" and not self.may_tile:
            shape = jaxapi.shape_of(eqn.outvars[0].aval) or ()
            ref = scope.names.get(eqn.invars[0], "the ref")
            return RegisterLoad(name=ref, shape=tuple(dim or 0 for dim in shape)) if shape else None
        if name in _REDUCTIONS and self.thread_axis is not None and not scope.alone:
            return self._reduction(eqn, by_rows)
        return None

    def _reduction(self, eqn: Any, by_rows: set[Any]) -> WarpReduction | None:
        """A reduction that surely crosses warps: of everything to one number, or over rows that warps divide."""
        shape, axes = jaxapi.shape_of(eqn.invars[0].aval) or (), eqn.params["axes"]
        across = tuple(axes) == (0,) and not jaxapi.is_literal(eqn.invars[0]) and eqn.invars[0] in by_rows
        if not shape or (len(axes) != len(shape) and not across):
            return None
        written = f"({', '.join(map(str, shape))})"
        return WarpReduction(
            what=eqn.primitive.name,
            operand=f"{jaxapi.dtype_name(eqn.invars[0].aval)}{written}",
            warpgroups=self.kernel.mesh.num_threads,
            ordered=self.ordered,
        )

    def _product(self, eqn: Any, scope: _Scope) -> MatrixProduct:
        views = gpu_refs.operands(eqn)
        instruction = _PRODUCTS[eqn.primitive.name]
        operands = {
            name: self._operand(views.get(name), eqn.invars[position], scope)
            for position, name in enumerate(("acc", "a", "b"))
        }
        scaled = bool(eqn.params.get("scaled") or eqn.params.get("sparse"))
        collective = eqn.params.get("collective_axis") is not None
        return MatrixProduct(instruction=instruction, collective=collective, plain=not scaled, **operands)

    def _operand(self, view: View | None, atom: Any, scope: _Scope) -> MatrixOperand:
        if view is None:
            shape, dtype = jaxapi.shape_of(atom.aval), jaxapi.dtype_name(atom.aval)
            return MatrixOperand(name="a value", space=None, dtype=dtype, shape=shape)
        return MatrixOperand(
            name=scope.names.get(view.var, "the ref"),
            space=jaxapi.space_of(view.aval, "mosaic_gpu"),
            dtype=view.dtype,
            shape=view.shape,
            transposed=view.transposed,
            tile=view.tile,
            swizzle=view.swizzle,
            part=_cut(view) or self.multiplied[scope.roots.get(view.var)] > 1,
        )

    def _copy(self, eqn: Any, scope: _Scope) -> BulkCopy | None:
        views = gpu_refs.operands(eqn)
        whole, shared = ("src", "dst") if eqn.primitive.name == "copy_gmem_to_smem" else ("dst", "src")
        array, buffer = views[whole], views[shared]
        own, bits = jaxapi.shape_of(array.aval), gpu_refs.item_bits(array.aval)
        if bits is None or own is None:
            return None
        understood = array.shape is not None and not array.transposed and jaxapi.dtype_name(array.aval) != "bool"
        if not understood or eqn.params.get("collective_axes"):
            own = _unknown(own)
            understood, array_sizes, squeezed = False, own, (False,) * len(own)
        else:
            array_sizes, squeezed = array.sizes or own, array.squeezed or (False,) * len(own)
        return BulkCopy(
            name=scope.names.get(array.var, "the array"),
            shared=scope.names.get(buffer.var, "the buffer"),
            array=own,
            box=array_sizes,
            squeezed=squeezed,
            bits=bits,
            tile=buffer.tile,
            tiling=self._tiling(buffer, scope),
            plain=understood and _keeps_tiles(buffer),
            ways=tuple(self.starts.get(id(eqn), ())) if understood else (),
            outward=shared == "src",
            barrier=bool(eqn.params.get("has_barrier")),
            promised=getattr(eqn.params.get("oob_mode"), "name", "") == "PROMISE_IN_BOUNDS",
        )

    def _tiling(self, buffer: View, scope: _Scope) -> Literal["given", "none", "inferred", "unknown"]:
        if buffer.tile is not None or buffer.swizzle is not None:
            return "given"
        if buffer.shape is None:
            return "unknown"
        if scope.roots.get(buffer.var) in self.multiplied:
            return "inferred"
        return "unknown" if self.may_tile else "none"

    def _entered(self, eqn: Any, inner: Any, scope: _Scope) -> _Scope:
        scoped = eqn.primitive.name == "run_scoped"
        inputs, outer = (inner.constvars, eqn.invars) if scoped else (inner.invars, outer_operands(eqn, inner))
        names, roots = {}, {}
        for var, operand in zip(inputs, outer, strict=False):
            if operand is not None and not jaxapi.is_literal(operand) and operand in scope.roots:
                names[var], roots[var] = scope.names.get(operand, "the ref"), scope.roots[operand]
        if scoped:
            for name, var in zip(gpu_refs.scoped_names(inner), inner.invars, strict=True):
                names[var], roots[var] = name, var
        return _Scope(names, roots, scope.alone)


def _split_by_rows(jaxpr: Any, given: set[Any]) -> set[Any]:
    """The matrices of a jaxpr whose rows surely lie in different warps.

    Those are results of `wgmma`, what is cast to their layout, and what is computed of their elements. ``given``: the
    inputs of the jaxpr that are such.
    """
    found = set(given)
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        cast = name == "layout_cast" and str(eqn.params["new_layout"]).endswith(_BY_ROWS)
        if name == "wgmma_accumulator_deref_p" or cast:
            found.update(eqn.outvars)
            continue
        known = [atom for atom in eqn.invars if not jaxapi.is_literal(atom) and atom in found]
        if known and not any(jaxapi.inner_jaxprs(eqn)) and name != "layout_cast":
            shape = jaxapi.shape_of(known[0].aval)
            found.update(var for var in eqn.outvars if jaxapi.shape_of(var.aval) == shape)
    return {var for var in found if len(jaxapi.shape_of(var.aval) or ()) == len(("rows", "columns"))}


def _handed_on(eqn: Any, inner: Any, values: set[Any]) -> set[Any]:
    """The inputs of an inner jaxpr that are among ``values``; what a loop carries may have changed."""
    if eqn.primitive.name == "run_scoped":
        pairs = zip(inner.constvars, eqn.invars, strict=False)
    elif eqn.primitive.name == "scan":
        count = jaxapi.scan_counts(eqn)[0]
        pairs = zip(inner.invars[:count], eqn.invars[:count], strict=True)
    elif eqn.primitive.name in ("cond", "jit", "pjit"):
        pairs = zip(inner.invars, outer_operands(eqn, inner), strict=False)
    else:
        return set()
    return {var for var, atom in pairs if atom is not None and not jaxapi.is_literal(atom) and atom in values}


def _unknown(shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
    return (None,) * len(shape)


def _cut(view: View) -> bool:
    """Whether a view is less than a buffer's last two dims."""
    whole = view.indexed[-2:] if view.indexed else view.shape
    return bool(view.sizes) and tuple(view.sizes[-2:]) != tuple(whole or ())


def _keeps_tiles(view: View) -> bool:
    """Whether the last two dims of a view are those of its buffer, which is no union that others lay out, too."""
    if type(view.aval).__name__ == "AbstractRefUnion" and view.tile is None:
        return False
    return view.shape is not None and not view.transposed and not any(view.squeezed[-2:])


def _equations(jaxpr: Any) -> Iterator[Any]:
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jaxapi.inner_jaxprs(eqn):
            yield from _equations(inner)
