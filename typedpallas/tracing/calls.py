"""What a kernel's call asks for before its body runs: a backend, a space for each buffer, 64-bit values."""

from collections.abc import Iterator
from typing import Literal

from typedpallas.events import BuiltFor, Context, Placement, Value
from typedpallas.tracing import jaxapi
from typedpallas.tracing.body import sizes
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall, Operand


def events(kernel: KernelCall, context: Context) -> Iterator[Located]:
    """All of it, at the line of the call."""
    if kernel.backend is not None:
        source = "mesh" if kernel.mesh is not None else "compiler parameters"
        named = kernel.named_backend is not None
        built = BuiltFor(
            kernel=kernel.name,
            backend=kernel.backend,
            source=source if named else None,
            lowered=None if kernel.mesh is not None else jaxapi.calls_lowered(kernel.compiler_params),
        )
        yield Located(built, kernel.place, kernel.name)
    if kernel.foreign(context.target):
        return
    for operand in kernel.operands:
        if operand.role != "prefetch":
            yield from (Located(event, kernel.place, kernel.name) for event in _of_operand(operand, kernel))
    for aval in jaxapi.dynamic_grid(kernel.eqn):
        bound = Value(primitive="grid bound", shape=(), dtype=jaxapi.dtype_name(aval) or "")
        yield Located(bound, kernel.place, kernel.name)


def _of_operand(operand: Operand, kernel: KernelCall) -> Iterator[Placement | Value]:
    space = operand.declared_space or operand.space
    if space is not None:
        role: Literal["operand", "scratch"] = "scratch" if operand.role == "scratch" else "operand"
        yield Placement(name=operand.name, space=space, role=role)
    if operand.dtype is not None and (space is None or space.data):
        shape = sizes(operand.shape)
        yield Value(primitive=f"`{operand.name}`", shape=shape or (), dtype=operand.dtype)
    windowed = operand.space is None or operand.space.windowed
    if operand.mapping is not None and kernel.grid and windowed:
        for aval in jaxapi.index_map_results(operand.mapping):
            what = f"the index map of `{operand.name}`"
            yield Value(primitive=what, shape=(), dtype=jaxapi.dtype_name(aval) or "")
