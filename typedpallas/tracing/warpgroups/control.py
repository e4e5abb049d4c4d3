"""Calls, branches, loops, scoped buffers, and warps that go separate ways."""

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.warpgroups import numbers
from typedpallas.tracing.warpgroups.numbers import Frame
from typedpallas.tracing.warpgroups.plan import CALLS, Plan, Step
from typedpallas.tracing.warpgroups.run import Results, Run, handles, waits
from typedpallas.tracing.warpgroups.state import NotFollowed, Thread

type Walk = Generator[None, None, Results]

_WARPS = 4


def _arguments(step: Step, frame: Frame) -> list[Any]:
    return [numbers.read(frame, atom) for atom in step.eqn.invars]


@waits(*CALLS)
def _call(run: Run, thread: Thread, step: Step, frame: Frame) -> Walk:
    inner = list(jaxapi.inner_jaxprs(step.eqn))
    if not inner or len(inner[0].invars) != len(step.eqn.invars):
        raise NotFollowed(step.name)
    return (yield from run.inner(thread, inner[0], _arguments(step, frame)))


@handles("axis_index")
def _axis_index(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    name = step.eqn.params["axis_name"]
    return (thread.coordinates.get(name[0] if isinstance(name, tuple) and len(name) == 1 else name),)


@waits("cond")
def _cond(run: Run, thread: Thread, step: Step, frame: Frame) -> Walk:
    branches = step.eqn.params["branches"]
    which, *arguments = _arguments(step, frame)
    if which is not None:
        chosen = branches[min(max(which, 0), len(branches) - 1)]
        return (yield from run.inner(thread, chosen, arguments))
    if any(run.plans.of(branch).syncs for branch in branches):
        raise NotFollowed("a branch on data")
    return ()


@waits("scan")
def _scan(run: Run, thread: Thread, step: Step, frame: Frame) -> Walk:
    params = step.eqn.params
    arguments = _arguments(step, frame)
    consts, carried = jaxapi.scan_counts(step.eqn)
    fixed, carry, sliced = arguments[:consts], arguments[consts : consts + carried], arguments[consts + carried :]
    slices: list[Any] = [None] * len(sliced)
    thread.turns.append(0)
    for turn in range(params["length"]):
        thread.turns[-1] = turn
        carry = (yield from run.inner(thread, params["jaxpr"], [*fixed, *carry, *slices]))[:carried]
    thread.turns.pop()
    return carry


@waits("while")
def _while(run: Run, thread: Thread, step: Step, frame: Frame) -> Walk:
    params = step.eqn.params
    arguments = _arguments(step, frame)
    tests, bodies = params["cond_nconsts"], params["body_nconsts"]
    asked, fixed, carry = arguments[:tests], arguments[tests : tests + bodies], arguments[tests + bodies :]
    thread.turns.append(0)
    while True:
        goes_on = (yield from run.inner(thread, params["cond_jaxpr"], [*asked, *carry]))[0]
        if goes_on is None:
            if run.plans.of(params["body_jaxpr"]).syncs:
                raise NotFollowed("a loop over data")
            carry = []
        if not goes_on:
            break
        carry = yield from run.inner(thread, params["body_jaxpr"], [*fixed, *carry])
        thread.turns[-1] += 1
    thread.turns.pop()
    return carry


@waits("run_scoped")
def _scoped(run: Run, thread: Thread, step: Step, frame: Frame) -> Walk:
    inner = jaxapi.open_jaxpr(step.eqn.params["jaxpr"])
    collective = bool(step.eqn.params.get("collective_axes"))
    if collective and len(run.groups) > 1:
        yield from _meet(run, thread, inner)
    names = inner.debug_info.arg_names or ()
    known = len(names) == len(inner.invars)
    scope = dict(zip(inner.constvars, _arguments(step, frame), strict=True))
    for k, var in enumerate(inner.invars):
        key = var if collective or len(run.groups) == 1 else (var, thread.number)
        scope[var] = run.buffer(key, names[k] if known else f"scoped[{k}]", var.aval)
    yield from run.walk(thread, run.plans.of(inner), scope)
    return [numbers.read(scope, atom) for atom in inner.outvars]


def _meet(run: Run, thread: Thread, inner: Any) -> Iterator[None]:
    """All warpgroups wait for each other before memory that they share is used anew."""
    visit = thread.visits[inner] = thread.visits.get(inner, 0) + 1
    meeting = run.meetings.setdefault((inner, visit), {})
    meeting[thread.number] = dict(thread.knows)
    run.budget -= 1
    while len(meeting) < len(run.groups):
        yield
    for knows in meeting.values():
        thread.learn(knows)


@waits("run_state")
def _state(run: Run, thread: Thread, step: Step, frame: Frame) -> Walk:
    """Values become refs for a while; all products end with it."""
    inner = jaxapi.open_jaxpr(step.eqn.params["jaxpr"])
    scope: Frame = {}
    for k, (var, given) in enumerate(zip(inner.invars, _arguments(step, frame), strict=True)):
        scope[var] = given
        if jaxapi.is_ref(var.aval) and not jaxapi.is_ref(step.eqn.invars[k].aval):
            scope[var] = run.buffer((var, thread.number), f"state[{k}]", var.aval)
            scope[var].value = given
    yield from run.walk(thread, run.plans.of(inner), scope)
    thread.await_all_but("product", 0)
    return [getattr(scope[var], "value", None) for var in inner.invars]


@waits("mpmd_map", "core_map")
def _warps(run: Run, thread: Thread, step: Step, frame: Frame) -> Walk:
    """The four warps of a warpgroup, each on its own, until all of them end."""
    params = step.eqn.params
    meshes = params.get("meshes") or (params.get("mesh"),)
    bodies = list(jaxapi.inner_jaxprs(step.eqn))
    axis = getattr(meshes[0], "axis_name", None)
    if len(bodies) != 1 or axis is None or thread.warps is None:
        raise NotFollowed("parts of a warpgroup")
    plan = run.plans.of(bodies[0])
    for warp in _warps_of(run, thread, axis):
        own = dict(zip(bodies[0].invars, _arguments(step, frame), strict=True))
        run.start(warp, _in_scope(run, warp, plan, own))
    while not all(warp.done for warp in thread.warps):
        yield
    for warp in thread.warps:
        thread.learn(warp.knows)
    return ()


def _warps_of(run: Run, thread: Thread, axis: Any) -> Sequence[Thread]:
    if not thread.warps:
        first = len(run.groups) + _WARPS * thread.number
        thread.warps = [Thread(first + k, f"warp {k} of {thread.name}", {}, thread.point) for k in range(_WARPS)]
        for warp in thread.warps:
            warp.waits = dict(thread.waits)
    for k, warp in enumerate(thread.warps):
        warp.coordinates = thread.coordinates | {axis: k}
        warp.turns = list(thread.turns)
        warp.learn(thread.knows)
    return thread.warps


def _in_scope(run: Run, thread: Thread, plan: Plan, frame: Frame) -> Iterator[None]:
    yield from run.walk(thread, plan, frame)
