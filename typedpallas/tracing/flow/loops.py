"""Loops: turn by turn where they are short and known, else until nothing changes any more."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow import cells, numbers
from typedpallas.tracing.flow import stacks as flow_stacks
from typedpallas.tracing.flow.numbers import Number, Stepped, exact
from typedpallas.tracing.flow.plan import Plan
from typedpallas.tracing.flow.run import Frame, Run, handles
from typedpallas.tracing.flow.state import Bound, widened

_EDGE = 4
"""How many turns at either end of a long loop are walked by themselves, where those between come in phases."""
_NEAR = 3
"""How many turns before and after one that a body compares with."""
_TRIES = 5
"""Walks of a loop's body until nothing changes any more; then everything that it may change is forgotten."""

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
        place = None if exact(number) is None else (id(eqn), exact(number))
        results = run.inner(body, [*fixed, *carry, *(flow_stacks.part(bound, at) for bound in sliced)], place)
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
            known = [_at(run, bound, stride, (low, low)) for bound, stride in zip(start, strides, strict=True)]
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
    known = [
        [_at(run, bound, stride, number) for bound, stride in zip(start, strides, strict=True)] for number in numbers
    ]

    def group(given: list[Bound]) -> list[Bound]:
        for number, settled in zip(numbers, known, strict=True):
            given = turn(number, _fixed(given, settled))
        return given

    return settle(run, _fixed(carry, known[0]), known[0], group)


def _at(run: Run, start: Bound, stride: int | None, turns: Number) -> Bound | None:
    """A number that grows by a constant, at some turns; none where it does not."""
    if stride is None or turns is None or start.number is None or cells.worst(start.cells):
        return None
    return Bound(numbers.linear(start.number, stride, turns), name=run.step if stride else start.name)


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

    def goes_on(carry: Sequence[Bound], turn: int | None) -> Bound:
        at = None if turn is None else (id(eqn), turn, "asked")
        return run.inner(eqn.params["cond_jaxpr"], [*asked, *carry], at)[0]

    def again(carry: Sequence[Bound], turn: int | None) -> list[Bound]:
        return run.inner(eqn.params["body_jaxpr"], [*fixed, *carry], None if turn is None else (id(eqn), turn))

    strides = _strides(jaxapi.open_jaxpr(eqn.params["body_jaxpr"]), bodies, len(carry))
    for turn in range(run.unroll):
        test = goes_on(carry, turn)
        said = _more(run, eqn, turn) if exact(test.number) is None else exact(test.number)
        if said is None:
            run.ask(eqn, test.name, turn)
            break
        if not said:
            return carry
        carry = again(_counted(run, carry, strides), turn)
    return _perhaps_again(run, carry, lambda given: goes_on(given, None), lambda given: again(given, None))


def _counted(run: Run, carry: list[Bound], strides: Sequence[int | None]) -> list[Bound]:
    """What a turn is given: numbers that each turn changes are named so."""
    if run.naming is None:
        return carry
    pairs = zip(carry, strides, strict=True)
    return [replace(b, name=run.step) if exact(b.number) is not None and by != 0 else b for b, by in pairs]


def _more(run: Run, eqn: Any, turn: int) -> bool | None:
    """Whether a loop is taken to make more turns."""
    naming = run.naming
    turns = None if naming is None else naming.turns.get((id(eqn), naming.here))
    return None if turns is None else turn < turns


def _perhaps_again(
    run: Run, carry: list[Bound], goes_on: Callable[[list[Bound]], Bound], body: Callable[[list[Bound]], list[Bound]]
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
