"""The asynchronous side of a Mosaic GPU kernel, block by block: what is read, overwritten or awaited wrongly."""

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from typedpallas.tracing.outer import scopes as outer_scopes
from typedpallas.tracing.outer.values import Values
from typedpallas.tracing.walk import KernelCall
from typedpallas.tracing.warpgroups import control, operations, tensor  # noqa: F401  (they register what follows each operation)
from typedpallas.tracing.warpgroups import refs as async_refs
from typedpallas.tracing.warpgroups.run import Run
from typedpallas.tracing.warpgroups.state import Barrier, Claim, Left, Thread

_BUDGET = 50_000
"""Equations that are visited in a kernel, all its warpgroups together."""
_ENOUGH = 0.8
"""Of the budget: so much must be left for a second block."""


def followed(kernel: KernelCall) -> list[Run]:
    """The kernel's last block and, where that was short, its first, as far as they could be followed."""
    mesh = async_refs.axes(kernel.mesh)
    if mesh is None:
        return []
    grid, cluster, axis, number = mesh
    runs = []
    budget = _BUDGET
    for point in dict.fromkeys([async_refs.last(grid), tuple(0 for _ in grid)]):
        if budget < _BUDGET * _ENOUGH:
            break
        shared = {name: 0 if size == 1 else None for name, size in cluster.items()}
        at = shared | dict(zip(grid, point, strict=True))
        groups = [Thread(k, f"warpgroup {k}", at | {axis: k}, point) for k in range(number)]
        run = Run(budget, groups)
        _enter(run, kernel)
        run.follow(functools.partial(_body, run, kernel.jaxpr))
        if run.complete:
            for claim in _left(run):
                run.say(claim)
        runs.append(run)
        budget = run.budget
    return runs


def _enter(run: Run, kernel: KernelCall) -> None:
    """The kernel's operands, with the contents of tables that are known."""
    scope = outer_scopes.innermost(replace(kernel, path=kernel.around))
    values = Values()
    for k, var in enumerate(kernel.jaxpr.invars):
        operand = kernel.operands[k] if k < len(kernel.operands) else None
        buffer = run.buffer(var, f"refs[{k}]" if operand is None else operand.name, var.aval)
        is_table = operand is not None and operand.role == "in" and "int" in (operand.dtype or "")
        if scope is not None and is_table:
            buffer.contents = values.of(scope, kernel.eqn.invars[k])


def _body(run: Run, jaxpr: Any, thread: Thread) -> Iterator[None]:
    frame = {var: run.buffers[var] for var in jaxpr.invars}
    yield from run.walk(thread, run.plans.of(jaxpr), frame)


def _left(run: Run) -> Iterator[Claim]:
    """Copies that no thread has waited for at the end: no wait at all comes after one out."""
    for buffer in run.buffers.values():
        for record in buffer.records:
            undrained = record.how == "copy from" and record.stamp[1] > record.thread.drained
            unseen = record.how == "copy to" and record.barrier is not None and not _watched(run, record.barrier)
            if undrained or unseen:
                yield Left(buffer, record)


def _watched(run: Run, barrier: Barrier) -> bool:
    """Whether anybody waits for this barrier or another of its ref: blocks may well fetch more than they use."""
    for buffer in run.buffers.values():
        if barrier in buffer.barriers:
            return any(other.waiters for other in buffer.barriers)
    return True
