"""Branches and loops: on which path their bodies run, and what the numbers that they carry can be."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from typedpallas.starts.bounds import Range, bounds, join, widened
from typedpallas.starts.terms import Leaf, Term, leaves
from typedpallas.tracing import jaxapi
from typedpallas.tracing.jaxapi import scan_counts
from typedpallas.tracing.ranges import numbers as ranges_numbers
from typedpallas.tracing.ranges.frames import Frame, Walk, handles
from typedpallas.tracing.ranges.points import Condition

_ROUNDS = 2
"""Walks of a loop for the bounds of what it carries; then it may carry anything."""
_DEEPEST = 2
"""In loops inside as many loops that are walked for this, what is carried is not followed."""


@handles("cond")
def _branches(walk: Walk, eqn: Any, frame: Frame) -> None:
    terms, branches = walk.terms, [jaxapi.open_jaxpr(branch) for branch in eqn.params["branches"]]
    which, last = frame.read(terms, eqn.invars[0]), len(branches) - 1
    outside = _parts([frame.read(terms, atom) for atom in eqn.invars[1:]])
    found: list[list[Term]] = []
    for number, branch in enumerate(branches):
        if which.const is not None and min(max(which.const, 0), last) != number:
            continue
        path = frame.path
        if which.const is None:
            path = replace(path, conditions=(*path.conditions, Condition(which, number, last)))
        found.append(walk.run(branch, frame.entered(terms, branch.invars, eqn.invars[1:], path)))
    frame.store(eqn.outvars, [_merged(walk, which, results, outside) for results in zip(*found, strict=True)])


def _parts(operands: Sequence[Term]) -> set[Term]:
    """The terms of a branch's operands, and what these are made of."""
    found: set[Term] = set()
    todo = list(operands)
    while todo:
        term = todo.pop()
        if term not in found:
            found.add(term)
            todo.extend(term.args)
    return found


def _merged(walk: Walk, which: Term, results: Sequence[Term], outside: set[Term]) -> Term:
    """What one of several branches gives.

    A compiler makes a choice of it where each gives what is known before the branch; what one works out itself it
    does not look into (asked of libtpu: equal results of all branches neither).
    """
    first = results[0]
    plain = len(results) <= 2 and all(term.const is not None or term in outside for term in results)
    if all(term is first for term in results):
        return first if plain or len(results) == 1 else walk.terms.opaque(first)
    if len(results) == 2:
        chosen = walk.terms.apply("select", which, first, results[1])
        return walk.terms.joined(chosen) if plain else walk.terms.opaque(chosen)
    range_ = bounds(first, {})
    for term in results[1:]:
        range_ = join(range_, bounds(term, {}))
    return walk.terms.leaf(_carried(range_))


def _carried(found: Range) -> Leaf:
    return Leaf("a value that a loop or branch hands on", found.low, found.high, step=found.step, rest=found.rest)


def _grown(start: Term, stride: int) -> Range:
    """What a number is, that has grown by the same any number of times."""
    found = bounds(start, {})
    step = math.gcd(found.step, stride)
    return Range(found.low if stride > 0 else None, found.high if stride < 0 else None, step, found.rest % step)


def _strides(body: Any, first: int, count: int) -> list[int | None]:
    """By how much each carried number grows each turn, where that is a constant; 0 for what stays as it is."""
    made = {var: eqn for eqn in body.eqns for var in eqn.outvars}
    found: list[int | None] = []
    for var, atom in zip(body.invars[first : first + count], body.outvars[:count], strict=True):
        eqn = None if jaxapi.is_literal(atom) else made.get(atom)
        stride = 0 if atom is var else None
        if eqn is not None and eqn.primitive.name in ("add", "sub") and eqn.invars[0] is var:
            more = eqn.invars[1]
            value = ranges_numbers.literal(more.val) if jaxapi.is_literal(more) else None
            stride = None if value is None else value if eqn.primitive.name == "add" else -value
        found.append(stride)
    return found


@handles("scan")
def _scan(walk: Walk, eqn: Any, frame: Frame) -> None:
    terms, body, length = walk.terms, jaxapi.open_jaxpr(eqn.params["jaxpr"]), eqn.params["length"]
    consts, count = scan_counts(eqn)
    starts = [frame.read(terms, atom) for atom in eqn.invars[consts : consts + count]]
    if not length:
        frame.store(eqn.outvars[:count], starts)
        return
    unrolled = eqn.params.get("unroll") == length
    turn = Leaf(_label(eqn), 0, length - 1, known=True, unrolled=unrolled)
    strides = _strides(body, consts, count)
    inputs = [
        None if stride is None else _counted(walk, start, stride, terms.leaf(turn), hidden=number > 0 or stride != 1)
        for number, (start, stride) in enumerate(zip(starts, strides, strict=True))
    ]
    path = replace(frame.path, loops=(*frame.path.loops, turn))
    entered = frame.entered(terms, body.invars, eqn.invars, path)
    results = _turned(walk, body, entered, body.invars[consts : consts + count], starts, inputs)
    kept = unrolled or length == 1
    after = [
        result if stride is None else _after(walk, start, stride, length, kept)
        for start, stride, result in zip(starts, strides, results, strict=True)
    ]
    frame.store(eqn.outvars[:count], after)


def _after(walk: Walk, start: Term, stride: int, length: int, kept: bool) -> Term:
    """What has grown by the same at each turn: a number in a loop that is written out, hidden by any other."""
    found = _counted(walk, start, stride, walk.terms.const(length), hidden=False)
    return found if stride == 0 or kept else walk.terms.hidden(found)


def _label(eqn: Any) -> str:
    line = jaxapi.place(eqn).line
    return f"the turn of the loop in line {line}" if line else "the loop's turn"


def _counted(walk: Walk, start: Term, stride: int, turn: Term, *, hidden: bool) -> Term:
    """A number that grows by the same at each turn; the compiler sees only the loop's own counter."""
    terms = walk.terms
    if stride == 0:
        return start
    found = terms.apply("add", start, terms.apply("mul", turn, terms.const(stride)))
    return terms.opaque(found) if hidden else found


def _turned(
    walk: Walk,
    body: Any,
    frame: Frame,
    variables: Sequence[Any],
    starts: Sequence[Term],
    inputs: Sequence[Term | None],
) -> list[Term]:
    """Walk a loop's body with what is known of the numbers that it carries; what they can be after it."""
    numbers = [
        number
        for number, var in enumerate(variables)
        if inputs[number] is None and ranges_numbers.is_number(var.aval)
    ]
    ranges = _settled(walk, body, frame, variables, starts, inputs, numbers)
    _give(walk, frame, variables, inputs, ranges)
    results = walk.run(body, frame)
    known = [bounds(term, {}) for term in starts]
    return (
        [
            walk.terms.leaf(_carried(join(known[number], ranges[number])))
            if number in ranges
            else walk.terms.unknown()
            for number in range(len(variables))
        ]
        if results
        else []
    )


def _give(
    walk: Walk,
    frame: Frame,
    variables: Sequence[Any],
    inputs: Sequence[Term | None],
    ranges: Mapping[int, Range],
) -> None:
    for number, var in enumerate(variables):
        known = inputs[number]
        if ranges_numbers.is_number(var.aval):
            frame.numbers[var] = known if known is not None else walk.terms.leaf(_carried(ranges[number]))


def _settled(
    walk: Walk,
    body: Any,
    frame: Frame,
    variables: Sequence[Any],
    starts: Sequence[Term],
    inputs: Sequence[Term | None],
    numbers: Sequence[int],
) -> dict[int, Range]:
    """Ranges that cover what a loop carries at every turn."""
    ranges = {number: bounds(starts[number], {}) for number in numbers}
    if not numbers:
        return ranges
    if walk.silent < _DEEPEST:
        walk.silent += 1
        for _ in range(_ROUNDS):
            _give(walk, frame, variables, inputs, ranges)
            results = walk.run(body, frame)
            after = {number: widened(ranges[number], bounds(results[number], {})) for number in numbers}
            if after == ranges:
                walk.silent -= 1
                return ranges
            ranges = after
        walk.silent -= 1
    return dict.fromkeys(numbers, Range())


@handles("while")
def _while(walk: Walk, eqn: Any, frame: Frame) -> None:
    terms, parameters = walk.terms, eqn.params
    body, test = jaxapi.open_jaxpr(parameters["body_jaxpr"]), jaxapi.open_jaxpr(parameters["cond_jaxpr"])
    of_test, of_body = parameters["cond_nconsts"], parameters["body_nconsts"]
    outer, carried = eqn.invars[: of_test + of_body], eqn.invars[of_test + of_body :]
    starts = [frame.read(terms, atom) for atom in carried]
    strides = _strides(body, of_body, len(carried))
    limit = _limit(walk, test, of_test, frame, outer, starts, strides)
    turn = _turn(walk, eqn, starts, strides, limit)
    inputs: list[Term | None] = [
        None if stride is None else _counted(walk, start, stride, terms.leaf(turn), hidden=True)
        for start, stride in zip(starts, strides, strict=True)
    ]
    path = replace(frame.path, loops=(*frame.path.loops, turn), certain=frame.path.certain and turn.known)
    if limit is not None:
        number, most = limit
        counter = inputs[number]
        assert counter is not None
        path = replace(path, conditions=(*path.conditions, Condition(terms.apply("lt", counter, most), 1, 1)))
        inputs[number] = terms.opaque(terms.apply("min", counter, _last(walk, counter, most)))
    operands = [*outer[of_test:], *carried]
    entered = frame.entered(terms, body.invars, operands, path)
    results = _turned(walk, body, entered, body.invars[of_body:], starts, inputs)
    after = [
        start if stride == 0 else result if stride is None else terms.leaf(_carried(_grown(start, stride)))
        for start, stride, result in zip(starts, strides, results, strict=True)
    ]
    frame.store(eqn.outvars, after)


def _last(walk: Walk, counter: Term, most: Term) -> Term:
    """The last number below ``most`` that a counter can reach: of those that it steps on, where the end is known."""
    terms, known = walk.terms, bounds(counter, {})
    if most.const is None or known.step == 0:
        return terms.apply("sub", most, terms.const(1))
    last = most.const - 1
    return terms.const(last - (last - known.rest) % known.step)


def _limit(
    walk: Walk,
    test: Any,
    consts: int,
    frame: Frame,
    outer: Sequence[Any],
    starts: Sequence[Term],
    strides: Sequence[int | None],
) -> tuple[int, Term] | None:
    """The number that counts the loop's turns, and what it stays below; none for a loop of another kind."""
    if len(test.eqns) != 1 or test.eqns[0].primitive.name != "lt":
        return None
    counter, most = test.eqns[0].invars
    variables = list(test.invars[consts:])
    if jaxapi.is_literal(counter) or counter not in variables:
        return None
    number = variables.index(counter)
    stride = strides[number]
    if stride is None or stride <= 0:
        return None
    if jaxapi.is_literal(most):
        return number, frame.read(walk.terms, most)
    if most in variables:
        fixed = variables.index(most)
        return (number, starts[fixed]) if strides[fixed] == 0 else None
    return number, frame.read(walk.terms, outer[list(test.invars).index(most)])


def _turn(
    walk: Walk, eqn: Any, starts: Sequence[Term], strides: Sequence[int | None], limit: tuple[int, Term] | None
) -> Leaf:
    """The number of the turn; it is known to be reached only while the counter is below its limit."""
    if limit is None:
        return Leaf(_label(eqn), 0)
    number, most = limit
    low, high, stride = bounds(starts[number], {}).low, bounds(most, {}).high, strides[number] or 1
    if low is None or high is None:
        return Leaf(_label(eqn), 0)
    known = all(leaf.known for leaf in leaves(starts[number], most))
    return Leaf(_label(eqn), 0, max(0, (high - low - 1) // stride), known=known)
