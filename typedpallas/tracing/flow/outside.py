"""Entries of tables that a kernel asks for and that are not there, where the tables' contents are known."""

from collections.abc import Iterator
from dataclasses import replace

from typedpallas.events import Slice, Step
from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow.run import Run
from typedpallas.tracing.flow.state import Ids
from typedpallas.tracing.located import Located
from typedpallas.tracing.ranges import slices as ranges_slices
from typedpallas.tracing.ranges.picked import Users, picked
from typedpallas.tracing.walk import KernelCall


def events(kernel: KernelCall, run: Run) -> Iterator[Located]:
    """The index that leaves its table, at its line; none where the steps alone tell and it is said already."""
    if not run.outside:
        return
    for use, parts, event in ranges_slices.by_part(kernel):
        if any(part.outside is not None for part in event.parts):
            continue
        for axis in range(len(parts)):
            found = run.outside.get((id(use.eqn), axis))
            if found is not None and use.op == "load" and len(event.parts) == len(parts):
                eqn, start, ids = found
                place = jaxapi.place(eqn)
                told = replace(_told(event, axis, start, ids), picked=picked(use.jaxpr, eqn.outvars[0], Users()))
                yield Located(told, place if place.file else kernel.place, kernel.name)


def _told(event: Slice, axis: int, start: int, ids: Ids) -> Slice:
    at = {f"program_id({k})": number[0] for k, number in enumerate(ids) if number is not None}
    part = replace(event.parts[axis], outside=Step(at=at, start=start))
    return replace(event, parts=(*event.parts[:axis], part, *event.parts[axis + 1 :]))
