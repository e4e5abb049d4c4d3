"""Calls and branches."""

from collections.abc import Hashable, Sequence
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow.memo import exactly as _exactly
from typedpallas.tracing.flow.memory import unknown
from typedpallas.tracing.flow.plan import Plan
from typedpallas.tracing.flow.run import Frame, Run, handles, read
from typedpallas.tracing.flow.state import Bound, State


@handles("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
def _call(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    inner = list(jaxapi.inner_jaxprs(eqn))
    if not inner or len(inner[0].invars) != len(eqn.invars) or len(inner[0].outvars) != len(eqn.outvars):
        return unknown(run, eqn, plan, frame)
    arguments = [run.given(plan, frame, atom) for atom in eqn.invars]
    key = _alike(run, inner[0], arguments)
    if key is None:
        return run.inner(inner[0], arguments, at=(id(eqn),))
    if key not in run.plans.results:
        before = run.spent
        run.plans.results[key] = run.inner(inner[0], arguments), run.spent - before
    else:
        run.spend(run.plans.results[key][1])
    return run.plans.results[key][0]


def _alike(run: Run, jaxpr: Any, arguments: Sequence[Bound]) -> Hashable:
    """What all that a call makes follows from: numbers and plain cells; none where there may be more to it."""
    if run.naming is not None or not run.plans.computes(jaxpr):
        return None
    if any(not isinstance(b.cells, int) or b.origin is not None or b.known is not None for b in arguments):
        return None
    return id(jaxpr), tuple([(_exactly(bound.number), bound.cells) for bound in arguments])


@handles("cond")
def _cond(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    branches = eqn.params["branches"]
    index = read(frame, eqn.invars[0])
    which = index.number
    arguments = [run.given(plan, frame, atom) for atom in eqn.invars[1:]]
    low, high = (0, len(branches) - 1) if which is None else which
    low, high = min(max(low, 0), len(branches) - 1), min(max(high, 0), len(branches) - 1)
    if low == high:
        return run.inner(branches[low], arguments, at=(id(eqn), low))
    run.ask(eqn, index.name)
    before, guards = run.state, run.guards
    after: State | None = None
    found: list[Bound] = []
    for number in range(low, high + 1):
        run.state, run.guards = before.copy(), guards
        run.guards = run.guard()
        results = run.inner(branches[number], arguments, at=(id(eqn), number))
        found = results if after is None else [a.join(b) for a, b in zip(found, results, strict=True)]
        after = run.state if after is None else after.join(run.state)
    assert after is not None
    run.state, run.guards = after, guards
    return found
