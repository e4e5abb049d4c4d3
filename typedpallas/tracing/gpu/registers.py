"""What the accumulators of a Mosaic GPU kernel take of a thread's registers."""

import math
from collections.abc import Iterator
from typing import Any

from typedpallas import dtypes, gpu
from typedpallas.events import RegisterUse
from typedpallas.tracing import jaxapi
from typedpallas.tracing.walk import KernelCall

_THREADS, _BITS = 128, 32
"""Threads of a warpgroup, bits of a register."""
_ALL, _MOST = 65536, 255
"""Registers of a multiprocessor, and the most that a thread can name."""
_STEP = 8
"""Threads get registers in multiples of this."""

type _Limit = tuple[int, str]
"""Registers that a thread may have, and why."""


def tightest(kernel: KernelCall) -> RegisterUse | None:
    """The accumulator that leaves the fewest registers; none where there are no accumulators.

    A branch has what its `plgpu.set_max_registers` says, every other part what the assembler gives each thread of a
    block of so many. Accumulators beside each other are not added up: those that hold nothing at the time take none.
    """
    groups = kernel.mesh.num_threads or 1
    limit = min(_MOST, _ALL // (groups * _THREADS) // _STEP * _STEP)
    words = f"what a thread of a block of {groups} warpgroup{'s' * (groups > 1)} has"
    found = ((shape, size, at) for at, var in _scoped(kernel.jaxpr, (limit, words)) for shape, size in _taken(var))
    best = min(found, key=lambda one: one[2][0] - one[1], default=None)
    if best is None:
        return None
    shape, size, (limit, words) = best
    return RegisterUse(kernel=kernel.name, accumulator=shape, registers=size, limit=limit, limit_from=words)


def _scoped(jaxpr: Any, limit: _Limit) -> Iterator[tuple[_Limit, Any]]:
    """What each ``run_scoped`` makes, with the limit there."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "set_max_registers_p":
            number = int(eqn.params["n"])
            limit = (number, f"what `plgpu.set_max_registers({number}, ...)` asks for")
        for part in jaxapi.inner_jaxprs(eqn):
            if eqn.primitive.name == "run_scoped":
                yield from ((limit, var) for var in part.invars)
            yield from _scoped(part, limit)


def _taken(var: Any) -> Iterator[tuple[tuple[int, int], int]]:
    """Shape and registers of a thread, if this is an accumulator."""
    shape, marker = jaxapi.shape_of(var.aval), dtypes.from_jax_name(jaxapi.dtype_name(var.aval) or "")
    if jaxapi.declared_space(var.aval) is not gpu.ACC or shape is None or marker is None or None in shape:
        return
    rows, columns = (int(extent or 0) for extent in shape)
    yield (rows, columns), math.ceil(rows * columns * marker.bits / (_THREADS * _BITS))
