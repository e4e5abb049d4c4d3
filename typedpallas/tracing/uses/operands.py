"""Operands that a kernel never looks at."""

from collections.abc import Iterator

from typedpallas import tpu
from typedpallas.events import UnusedOperand
from typedpallas.tracing import jaxapi
from typedpallas.tracing.located import Located
from typedpallas.tracing.outer import program as grid_around
from typedpallas.tracing.walk import KernelCall


def events(kernel: KernelCall) -> Iterator[Located]:
    """One event for each operand in HBM that the program makes and the kernel ignores, at the call's line.

    Left alone: the program's own arguments, operands whose memory a result reuses, and kernels whose surroundings are
    not known.
    """
    if not kernel.path or kernel.backend != "mosaic_tpu":
        return
    used = {atom for eqn in kernel.jaxpr.eqns for atom in eqn.invars if not jaxapi.is_literal(atom)}
    aliased = {pair[0] for pair in kernel.aliases}
    mapping = kernel.eqn.params.get("grid_mapping")
    if mapping is None:
        return
    first = mapping.num_dynamic_grid_bounds
    for number, (var, operand) in enumerate(zip(kernel.jaxpr.invars, kernel.operands, strict=True)):
        ignored = operand.role == "in" and operand.space in (tpu.HBM, tpu.ANY) and var not in used
        if ignored and number not in aliased and not grid_around.is_argument(kernel, first + number):
            kind = f"{operand.dtype}[{','.join(map(str, operand.array or ()))}]"
            event = UnusedOperand(kernel=kernel.name, name=operand.name, kind=kind, space=operand.space)
            yield Located(event, kernel.place, kernel.name)
