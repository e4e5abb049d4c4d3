"""Buffers and semaphores that come into scope and go out of it."""

import functools
import math
import re
from collections.abc import Sequence
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow import cells
from typedpallas.tracing.flow.copies import leak
from typedpallas.tracing.flow.plan import Plan
from typedpallas.tracing.flow.run import Frame, NotFollowed, Run, handles, read
from typedpallas.tracing.flow.state import Bound, Buffer, Count


@handles("run_scoped")
def _scoped(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    inner = jaxapi.open_jaxpr(eqn.params["jaxpr"])
    if len(inner.constvars) != len(eqn.invars):
        raise NotFollowed("scoped buffers without their surroundings")
    names = inner.debug_info.arg_names or ()
    known = len(names) == len(inner.invars)
    made = []
    for k, var in enumerate(inner.invars):
        name = names[k] if known else f"scoped[{k}]"
        buffer = run.buffer(var, functools.partial(buffer_of, name, var.aval, "scoped"))
        allocate(run, buffer, cells.MAYBE if eqn.params.get("collective_axes") else cells.UNWRITTEN)
        made.append(buffer)
    scope = {var: run.given(plan, frame, atom) for var, atom in zip(inner.constvars, eqn.invars, strict=True)}
    scope |= {var: Bound(buffer=buffer) for var, buffer in zip(inner.invars, made, strict=True)}
    naming = run.naming
    here = None if naming is None else naming.here
    if naming is not None:
        naming.here = naming.inside(id(eqn))
    run.walk(run.plans.of(inner), scope)
    if naming is not None:
        naming.here = here
    for buffer in made:
        release(run, buffer)
    return [read(scope, atom) for atom in inner.outvars]


_SHORT = re.compile(r"(?:float|u?int)([124])(?:_|\b|e)")


def bits_of(aval: Any) -> int | None:
    """Bits of one element; none for semaphores and whatever else is no data."""
    name = jaxapi.dtype_name(aval) or ""
    short = _SHORT.match(name)
    if short:
        return int(short[1])
    size = getattr(aval.dtype, "itemsize", None) if "sem" not in name and "barrier" not in name else None
    return None if size is None else 8 * int(size)


def buffer_of(name: str, aval: Any, role: Any, number: int) -> Buffer:
    """A ref's buffer; semaphores have 0 bits unless copies count there."""
    shape = jaxapi.shape_of(aval) or ()
    if any(extent is None for extent in shape):
        raise NotFollowed("a buffer of unknown size")
    bits = bits_of(aval)
    if bits is None:
        return Buffer(number, name, tuple(shape), int(jaxapi.dtype_name(aval) == "dma_sem"), "semaphore")  # type: ignore[arg-type]
    return Buffer(number, name, tuple(shape), bits, role)  # type: ignore[arg-type]


def allocate(run: Run, buffer: Buffer, code: int) -> None:
    """A buffer comes into scope."""
    if buffer.role == "semaphore":
        run.state.counts[buffer.number] = (Count(free=buffer.number in run.remote),) * math.prod(buffer.shape)
    else:
        run.state.cells[buffer.number] = code


@handles("get_barrier_semaphore")
def _barrier(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    """The one semaphore that the devices have in common; it is there before the kernel, and after it."""
    buffer = run.buffer("barrier", lambda number: Buffer(number, "get_barrier_semaphore()", (), 0, "semaphore"))
    run.shared.add(buffer.number)
    if buffer.number not in run.state.counts:
        allocate(run, buffer, cells.MEANT)
    return [Bound(buffer=buffer)]


def release(run: Run, buffer: Buffer) -> None:
    """A buffer goes out of scope: a semaphore must be zero then."""
    state = run.state
    state.cells.pop(buffer.number, None)
    state.origins.pop(buffer.number, None)
    leak(run, buffer)
    state.counts.pop(buffer.number, None)
    state.flights = tuple(
        flight for flight in state.flights if buffer not in (flight.semaphore[0], flight.source[0], flight.target[0])
    )
