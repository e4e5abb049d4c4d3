"""Calls, branches, loops and scoped buffers."""

import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow import cells, numbers
from typedpallas.tracing.flow import stacks as flow_stacks
from typedpallas.tracing.flow.copies import leak
from typedpallas.tracing.flow.memory import unknown
from typedpallas.tracing.flow.numbers import Number, Stepped, exact
from typedpallas.tracing.flow.plan import Plan
from typedpallas.tracing.flow.run import Frame, NotFollowed, Run, handles, read
from typedpallas.tracing.flow.state import Bound, Buffer, Count, State, widened

_EDGE = 4
"""How many turns at either end of a long loop are walked by themselves, where those between come in phases."""
_NEAR = 3
"""How many turns before and after one that a body compares with."""
_TRIES = 5
"""Walks of a loop's body until nothing changes any more; then everything that it may change is forgotten."""


@handles("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
def _call(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    inner = list(jaxapi.inner_jaxprs(eqn))
    if not inner or len(inner[0].invars) != len(eqn.invars) or len(inner[0].outvars) != len(eqn.outvars):
        return unknown(run, eqn, plan, frame)
    return run.inner(inner[0], [run.given(plan, frame, atom) for atom in eqn.invars])


@handles("cond")
def _cond(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    branches = eqn.params["branches"]
    which = read(frame, eqn.invars[0]).number
    arguments = [run.given(plan, frame, atom) for atom in eqn.invars[1:]]
    low, high = (0, len(branches) - 1) if which is None else which
    low, high = min(max(low, 0), len(branches) - 1), min(max(high, 0), len(branches) - 1)
    if low == high:
        return run.inner(branches[low], arguments)
    before, guards = run.state, run.guards
    after: State | None = None
    found: list[Bound] = []
    for branch in branches[low : high + 1]:
        run.state, run.guards = before.copy(), guards
        run.guards = run.guard()
        results = run.inner(branch, arguments)
        found = results if after is None else [a.join(b) for a, b in zip(found, results, strict=True)]
        after = run.state if after is None else after.join(run.state)
    assert after is not None
    run.state, run.guards = after, guards
    return found


type Turn = Callable[[Number, list[Bound]], list[Bound]]
"""One turn of a loop: its number, what it is given, what it hands on."""


@handles("scan")
def _scan(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    body, length = eqn.params["jaxpr"], eqn.params["length"]
    arguments = [run.given(plan, frame, atom) for atom in eqn.invars]
    consts, carried = jaxapi.scan_counts(eqn)
    fixed, carry, sliced = arguments[:consts], arguments[consts : consts + carried], arguments[consts + carried :]
    stacks = [flow_stacks.Stack(bound) for bound in eqn.outvars[carried:]]
    strides = _strides(jaxapi.open_jaxpr(body), consts, carried)

    def turn(number: Number, carry: list[Bound]) -> list[Bound]:
        at = _turn_of(eqn, number)
        results = run.inner(body, [*fixed, *carry, *(flow_stacks.part(bound, at) for bound in sliced)])
        for stack, made in zip(stacks, results[carried:], strict=True):
            stack.put(made, at)
        return results[:carried]

    carry = _turns(run, body, length, carry, turn, strides)
    return [*carry, *(stack.whole() for stack in stacks)]


def _turn_of(eqn: Any, number: Number) -> int | None:
    """The element of the stacked values that a turn takes; none where it is one of several."""
    turn = exact(number)
    if turn is None:
        return None
    return eqn.params["length"] - 1 - turn if eqn.params["reverse"] else turn


def _strides(body: Any, consts: int, carried: int) -> list[int | None]:
    """By how much each carried number grows each turn, where that is a constant."""
    made = {var: eqn for eqn in body.eqns for var in eqn.outvars}
    found: list[int | None] = []
    for var, atom in zip(body.invars[consts : consts + carried], body.outvars[:carried], strict=True):
        eqn = None if jaxapi.is_literal(atom) else made.get(atom)
        step = None
        if atom is var:
            step = 0
        elif eqn is not None and eqn.primitive.name == "add" and eqn.invars[0] is var:
            more = eqn.invars[1]
            step = exact(numbers.literal(more.val)) if jaxapi.is_literal(more) else None
        found.append(step)
    return found


def _turns(run: Run, body: Any, length: int, carry: list[Bound], turn: Turn, strides: Sequence[int | None]) -> Any:
    """A loop of known length: turn by turn where it is short, else some turns so and those between together.

    Those between are walked a period at a time, each turn of it for all the turns that many apart.
    """
    start = carry
    every = run.plans.period(body) if run.phased else 1
    single = set(range(length))
    if length > run.unroll:
        single = alone(length, 1 if every == 1 else _EDGE, run.plans.compared(body) if run.phased else ())
    for low, high in runs(length, single, every):
        if low == high:
            known = [_at(bound, stride, (low, low)) for bound, stride in zip(start, strides, strict=True)]
            carry = turn((low, low), _fixed(carry, known))
        else:
            carry = _between(
                run,
                [Stepped.of(low + k, high - every + 1 + k, every) for k in range(every)],
                start,
                carry,
                turn,
                strides,
            )
    return carry


def alone(length: int, edge: int, compared: Sequence[int]) -> set[int]:
    """The turns that are walked by themselves: the first, the last, and those around numbers that are looked for."""
    found = {*range(edge), *range(length - edge, length)}
    for number in compared:
        found |= set(range(max(number - _NEAR, 0), min(number + _NEAR + 1, length)))
    return found


def runs(length: int, single: set[int], every: int) -> Iterator[tuple[int, int]]:
    """All turns in order, single ones and runs of whole periods."""
    low = 0
    while low < length:
        high = next((k for k in range(low, length) if k in single), length)
        first = min(low + (high - low) % every, length) if high > low else low + 1
        yield from ((k, k) for k in range(low, first))
        if first < high:
            yield first, high - 1
        low = max(first, high)


def _between(
    run: Run,
    numbers: Sequence[Number],
    start: list[Bound],
    carry: list[Bound],
    turn: Turn,
    strides: Sequence[int | None],
) -> list[Bound]:
    """Turns of a period, each for all that are like it."""
    known = [[_at(bound, stride, number) for bound, stride in zip(start, strides, strict=True)] for number in numbers]

    def group(given: list[Bound]) -> list[Bound]:
        for number, settled in zip(numbers, known, strict=True):
            given = turn(number, _fixed(given, settled))
        return given

    return settle(run, _fixed(carry, known[0]), known[0], group)


def _at(start: Bound, stride: int | None, turns: Number) -> Bound | None:
    """A number that grows by a constant, at some turns; none where it does not."""
    if stride is None or turns is None or start.number is None or cells.worst(start.cells):
        return None
    return Bound(numbers.linear(start.number, stride, turns))


def _fixed(carry: Sequence[Bound], known: Sequence[Bound | None]) -> list[Bound]:
    return [bound if fixed is None else fixed for bound, fixed in zip(carry, known, strict=True)]


def settle(
    run: Run, carry: list[Bound], known: Sequence[Bound | None], turn: Callable[[list[Bound]], list[Bound]]
) -> list[Bound]:
    """Turns of unknown number, at least one: walk one until what it is given covers what it hands on.

    ``known`` numbers hold at every turn, whatever is handed on.
    """
    entry = run.state
    carry = [bound if bound.known is None else replace(bound, known=None) for bound in carry]
    for attempt in range(_TRIES):
        mark = len(run.claims)
        run.state = entry.copy()
        results = turn(list(carry))
        wide = entry.join(run.state)
        handed = [a.join(b) for a, b in zip(carry, _fixed(results, known), strict=True)]
        if wide.same(entry) and handed == carry:
            return results
        del run.claims[mark:]
        if attempt >= 1:
            wide = widened(wide, entry)
            handed = [_wider(a, b) for a, b in zip(handed, carry, strict=True)]
        entry, carry = wide, _fixed(handed, known)
    run.state = entry.widen()
    mark = len(run.claims)
    results = turn([Bound(buffer=bound.buffer, cells=cells.MAYBE) for bound in carry])
    del run.claims[mark:]
    run.state = run.state.widen()
    return [Bound(cells=cells.MAYBE, buffer=bound.buffer) for bound in results]


def _wider(now: Bound, before: Bound) -> Bound:
    return now if now.number == before.number else Bound(None, now.cells, now.origin, now.buffer)


@handles("while")
def _while(run: Run, eqn: Any, plan: Plan, frame: Frame) -> Sequence[Bound]:
    arguments = [run.given(plan, frame, atom) for atom in eqn.invars]
    tests, bodies = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    asked, fixed, carry = arguments[:tests], arguments[tests : tests + bodies], arguments[tests + bodies :]

    def goes_on(carry: Sequence[Bound]) -> Number:
        return run.inner(eqn.params["cond_jaxpr"], [*asked, *carry])[0].number

    for _ in range(run.unroll):
        said = exact(goes_on(carry))
        if said is None:
            break
        if not said:
            return carry
        carry = run.inner(eqn.params["body_jaxpr"], [*fixed, *carry])
    return _perhaps_again(run, carry, goes_on, lambda given: run.inner(eqn.params["body_jaxpr"], [*fixed, *given]))


def _perhaps_again(
    run: Run, carry: list[Bound], goes_on: Callable[[list[Bound]], Number], body: Callable[[list[Bound]], list[Bound]]
) -> list[Bound]:
    """Turns of unknown number, perhaps none."""
    guards = run.guards
    skipped = run.state.copy()
    handed: list[Bound] = list(carry)

    def turn(given: list[Bound]) -> list[Bound]:
        nonlocal skipped, handed
        goes_on(given)
        skipped, handed = run.state.copy(), given
        run.guards = run.guard()
        try:
            return body(given)
        finally:
            run.guards = guards

    results = settle(run, carry, [None] * len(carry), turn)
    run.state = skipped.join(run.state)
    return [a.join(b) for a, b in zip(handed, results, strict=True)]


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
        allocate(run.state, buffer, cells.MAYBE if eqn.params.get("collective_axes") else cells.UNWRITTEN)
        made.append(buffer)
    scope = {var: run.given(plan, frame, atom) for var, atom in zip(inner.constvars, eqn.invars, strict=True)}
    scope |= {var: Bound(buffer=buffer) for var, buffer in zip(inner.invars, made, strict=True)}
    run.walk(run.plans.of(inner), scope)
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


def allocate(state: State, buffer: Buffer, code: int) -> None:
    """A buffer comes into scope."""
    if buffer.role == "semaphore":
        state.counts[buffer.number] = (Count(),) * math.prod(buffer.shape)
    else:
        state.cells[buffer.number] = code


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
