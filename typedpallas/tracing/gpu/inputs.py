"""Stores of GPU kernels to their inputs: on a GPU a kernel sees the caller's own array."""

from collections.abc import Iterator, Mapping
from typing import Any

from typedpallas.events import StoredInput
from typedpallas.tracing import declared, jaxapi
from typedpallas.tracing.body import outer_operands
from typedpallas.tracing.gpu import refs as gpu_refs
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall

_STORES = ("swap", "addupdate", "masked_swap", "copy_smem_to_gmem")


def events(kernel: KernelCall) -> Iterator[Located]:
    """One for each store to an input that is an argument of the whole function and that no output shares.

    Inputs whose direction the kernel declares are judged by that.
    """
    if kernel.backend not in ("mosaic_gpu", "triton") or not (kernel.path or kernel.around):
        return
    said = declared.directions(kernel.source)
    inputs = {
        var: op.name
        for position, (var, op) in enumerate(zip(kernel.jaxpr.invars, kernel.operands, strict=False))
        if op.role == "in" and position not in _shared(kernel) and op.name not in said
    }
    arguments = {
        var: _argument(kernel, position) for position, var in enumerate(kernel.jaxpr.invars) if var in inputs
    }
    kept = {var: name for var, name in inputs.items() if arguments[var] is not None}
    for eqn, var in _stores(kernel.jaxpr, {var: var for var in kept}):
        event = StoredInput(name=kept[var], argument=arguments[var] or "")
        yield Located(event, jaxapi.place(eqn), kernel.name)


def _shared(kernel: KernelCall) -> set[int]:
    """The positions of inputs that an output shares memory with."""
    if kernel.mesh is None:
        return {given for given, _ in kernel.aliases}
    return set(dict(kernel.eqn.params.get("input_output_aliases") or {}))


def _stores(jaxpr: Any, roots: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _STORES:
            ref = gpu_refs.operands(eqn)["dst"].var if eqn.primitive.name.startswith("copy") else _stored(eqn)
            if ref in roots:
                yield eqn, roots[ref]
        for inner in _reached(eqn, jaxpr):
            scoped = eqn.primitive.name == "run_scoped"
            own, outer = (inner.constvars, eqn.invars) if scoped else (inner.invars, outer_operands(eqn, inner))
            known = {
                var: roots[atom]
                for var, atom in zip(own, outer, strict=False)
                if atom is not None and not jaxapi.is_literal(atom) and atom in roots
            }
            if known:
                yield from _stores(inner, known)


def _reached(eqn: Any, jaxpr: Any) -> list[Any]:
    """The jaxprs inside an equation, without branches for a negative axis index: there is none.

    JAX's own all-gather "stores" there, so that its input is put where other devices see it.
    """
    inner = list(jaxapi.inner_jaxprs(eqn))
    if eqn.primitive.name != "cond" or len(inner) != 2:
        return inner
    made = {var: other for other in jaxpr.eqns for var in other.outvars}
    test = None if jaxapi.is_literal(eqn.invars[0]) else made.get(eqn.invars[0])
    while (
        test is not None and test.primitive.name == "convert_element_type" and not jaxapi.is_literal(test.invars[0])
    ):
        test = made.get(test.invars[0])
    if test is None or test.primitive.name != "eq":
        return inner
    constants = [atom.val for atom in test.invars if jaxapi.is_literal(atom)]
    indices = [made.get(atom) for atom in test.invars if not jaxapi.is_literal(atom)]
    is_index = len(indices) == 1 and indices[0] is not None and indices[0].primitive.name == "axis_index"
    return inner[:1] if is_index and constants and constants[0] < 0 else inner


def _stored(eqn: Any) -> Any:
    ref, value = jaxapi.accessed(eqn)
    return ref if value is not None else None


def _argument(kernel: KernelCall, position: int) -> str | None:
    """The argument of the whole function that is the kernel's operand, as the function calls it.

    None where it is a value made on the way, a ref, or given away (donated).
    """
    path = kernel.path or kernel.around
    offset = len(kernel.eqn.invars) - sum(op.role in ("prefetch", "in") for op in kernel.operands)
    index = position + (offset if kernel.mesh is None else 0)
    if index >= len(kernel.eqn.invars):
        return None
    atom = kernel.eqn.invars[index]
    if jaxapi.is_literal(atom) or jaxapi.is_ref(atom.aval):
        return None
    for (jaxpr, _), (_, above) in zip(reversed(path[1:]), reversed(path[:-1]), strict=True):
        if atom not in jaxpr.invars or len(jaxpr.invars) != len(above.invars):
            return None
        number = jaxpr.invars.index(atom)
        donated = above.params.get("donated_invars") or ()
        if above.primitive.name in ("scan", "while", "cond") or (donated and donated[number]):
            return None
        atom = above.invars[number]
        if jaxapi.is_literal(atom):
            return None
    outermost = path[0][0]
    return jaxapi.argument_name(outermost, atom) if atom in outermost.invars else None
