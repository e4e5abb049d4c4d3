"""What is certain of copies where control hangs on data: a walk for each case that the kernel itself tells apart.

A number that hangs on data is taken to be this and that; whatever else has its name is the same then. A kernel that
goes wrong wherever a branch is taken, or wherever a loop makes turns, is wrong: nobody writes a condition that never
holds. That it fails at one step is not enough, for a condition may be meant for the others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from typedpallas.events import Given
from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow.claims import Claim, Early, Garbage, Hang, Left
from typedpallas.tracing.flow.grid import Grid
from typedpallas.tracing.flow.names import Leaf, Made, Name, Naming, Question, constants, parts, value
from typedpallas.tracing.flow.numbers import exact
from typedpallas.tracing.flow.run import NotFollowed

_MOST_EQUATIONS = 10_000
"""Equations to visit in all cases together, while nothing is found."""
_MOST_TO_PROVE = 60_000
"""Equations to visit where something is, to know whether it holds everywhere."""
_MOST_FOR_SOME = 4_000
"""If more were visited for what holds in all cases, it is not asked what holds in some."""
_MOST_PLACES = 5
"""Steps or turns at which one branch is asked about: the first two, one between, the last two."""
_LARGE = 1 << 24
"""Constants of a kernel beyond this are no counts."""
_TURNS = (1, 2, 3, 9)
_TRIED = (0, 1, 2, 3, 4, 8, 9, -1)
_PROBES = (0, 1, 5, 200)
_ANY = -1
"""Every way that a branch may go, and any number of turns."""
_BUCKETS = (0, 1, 2, 3, 8)
"""Numbers of turns that are told apart; more than the last are alike."""

type Follow = Callable[[Naming], Grid]
type _Root = Name | tuple[int, tuple[Any, ...]]
"""An unknown number, or the place of a loop."""
type _Key = tuple[Any, ...]
type _Known = tuple[tuple[Question, int], ...]
"""Questions with their answers: the way that a branch goes, the turns that a loop makes."""


@dataclass(frozen=True)
class Found:
    """A claim, and in which case it holds."""

    claim: Claim
    given: Given


@dataclass
class _Case:
    """An unknown number is ``value``, or a loop makes so many turns.

    ``answers``: by branch the way that it goes, by loop how many turns it makes or whether any.
    """

    root: _Root
    value: int
    answers: Mapping[Question, int]
    said: dict[_Known, Mapping[_Key, Claim]] = field(default_factory=dict)
    """The certain claims there, by what else is known, as far as it was walked."""


class _TooMany(Exception):
    """There are more cases than can be walked."""


def found(grid: Grid, follow: Follow) -> Iterator[Found]:
    """The claims that hold in some case. ``grid`` was walked; ``follow`` walks it again with names."""
    run = grid.run
    if not run.undecided or any(not isinstance(claim, Garbage) for claim in run.claims):
        return
    written = frozenset(
        run.written | set(_numbers(grid, lambda k: any(k == pair[0] for pair in grid.kernel.aliases)))
    )
    naming = Naming(written, frozenset(_numbers(grid, lambda k: _moves(grid, k))))
    try:
        yield from _Cases(follow, naming, tuple(follow(naming).run.questions)).judged()
    except (NotFollowed, _TooMany):
        return


def _moves(grid: Grid, position: int) -> bool:
    """Whether an operand is an input whose window goes over the grid."""
    operand = grid.kernel.operands[position]
    return operand.role == "in" and operand.mapping is not None and bool(grid.axes(operand))


def _numbers(grid: Grid, which: Callable[[int], bool]) -> Iterator[int]:
    """The buffers of operands at some positions."""
    for position, var in enumerate(grid.kernel.jaxpr.invars):
        if which(position) and var in grid.run.buffers:
            yield grid.run.buffers[var].number


class _Cases:
    """The cases of one kernel, each walked once and only where it is asked for."""

    def __init__(self, follow: Follow, naming: Naming, questions: Sequence[Question]) -> None:
        self._follow, self._naming, self._questions = follow, naming, questions
        self._known: dict[_Root, list[_Case]] = {}
        self._spent, self._most = 0, _MOST_EQUATIONS

    def judged(self) -> Iterator[Found]:
        """The claims that hold wherever a branch goes one way, or a loop makes turns; else those in some cases."""
        eqns = {id(question.eqn): question.eqn for question in self._questions}.values()
        for certain in (True, False):
            if not certain and self._spent > _MOST_FOR_SOME:
                return
            seen: set[_Key] = set()
            for eqn in eqns:
                for key, found in self._of(eqn, certain):
                    if key not in seen:
                        seen.add(key)
                        yield found
                if seen:
                    return

    def _of(self, eqn: Any, certain: bool) -> Iterator[tuple[_Key, Found]]:
        places = {_root_and_name(q): q for q in self._questions if q.eqn is eqn}
        steps = any(isinstance(q.name, Made) and q.name.steps for q in places.values())
        if None in places or (steps and (len(places) < 2 or not certain)):
            return
        asked = list(places.values())
        ways: list[int | None] = [None] if asked[0].turn is not None else [0, 1]
        for way in ways:
            for others in (asked, asked[::-1]) if certain and len(asked) > 1 else ([],):
                first = asked[0] if not others else others[0]
                found = self._everywhere(asked, others, way) if certain else self._claims(first, way, [], certain)
                for key, case in found.items():
                    yield key, Found(self._said(case)[key], _given(first, case, certain))
                if found:
                    return
        if certain:
            for key, case in self._claims(asked[0], _ANY, [], True).items():
                yield key, Found(self._said(case)[key], _given(asked[0], case, certain))

    def _everywhere(self, asked: list[Question], others: list[Question], way: int | None) -> dict[_Key, _Case]:
        """The claims that hold wherever a question has one answer, of all places in order the first, or the last.

        Then it has another one at those before it, or behind it; ``others`` are all places in that order.
        """
        sample = others or asked
        if len(sample) > _MOST_PLACES:
            sample = [*sample[:2], sample[len(sample) // 2], *sample[-2:]]
        found = self._claims(sample[0], way, [], True)
        if found:
            self._most = _MOST_TO_PROVE
        for question in sample[1:] if found else ():
            further = self._claims(question, way, others[: others.index(question)], True)
            found = {key: case for key, case in found.items() if key in further}
        return found

    def _claims(
        self, question: Question, way: int | None, before: Sequence[Question], certain: bool
    ) -> dict[_Key, _Case]:
        """The claims of all cases with one answer to a question, or in which a loop makes turns; the first of them.

        If not ``certain``, those of some of them. The answer is another one to those ``before`` it.
        """
        root = _root(question)
        assert root is not None
        cases = [case for case in self._at(root, question) if _goes(case.answers[question], way)]
        cases.sort(key=lambda case: (case.value < 0, abs(case.value)))
        cases = [case for case in cases if case.value >= 0] or cases
        known = tuple((other, 0 if way is None else 1 - way) for other in before)
        found: dict[_Key, _Case] = {}
        for k, case in enumerate(cases):
            said = self._said(case, known)
            if certain and k:
                found = {key: first for key, first in found.items() if key in said}
            else:
                found |= {key: case for key in said if key not in found}
            if certain and not found:
                break
        return found

    def _at(self, root: _Root, question: Question) -> list[_Case]:
        if root not in self._known:
            self._known[root] = list(_cases(root, self._decided(root, question)))
        return self._known[root]

    def _decided(self, root: _Root, question: Question) -> list[Question]:
        """The questions that a root decides."""
        if isinstance(root, tuple):
            return [question]
        return [q for q in self._questions if q.name is not None and _decides(root, q.name)]

    def _said(self, case: _Case, known: _Known = ()) -> Mapping[_Key, Claim]:
        if known not in case.said:
            case.said[known] = self._walked(case.root, case.value, known)
        return case.said[known]

    def _walked(self, root: _Root, number: int, known: _Known) -> dict[_Key, Claim]:
        turns: dict[Any, int] = {other.place: way for other, way in known if other.turn is not None}
        assumed: dict[Name, int] = {other.name: way for other, way in known if other.turn is None and other.name}
        if isinstance(root, tuple):
            turns[root] = number
        else:
            assumed[root] = number
        naming = replace(self._naming, here=None, assumed=assumed, turns=turns)
        run = self._follow(naming).run
        self._spent += run.spent
        if self._spent > self._most:
            raise _TooMany
        said: dict[_Key, Claim] = {}
        for claim in run.claims:
            if isinstance(claim, Early):
                said.setdefault((Early, id(claim.eqn), claim.buffer.number), claim)
            elif isinstance(claim, Hang) or (isinstance(claim, Left) and not claim.sometimes):
                said.setdefault((type(claim), claim.semaphore.number), claim)
        return said


def _goes(answer: int, way: int | None) -> bool:
    """Whether a branch goes one way; or, where none is given, a loop makes turns."""
    return answer > 0 if way is None else way in (answer, _ANY)


def _root_and_name(question: Question) -> tuple[_Root, Name | None] | None:
    root = _root(question)
    return None if root is None else (root, question.name)


def _root(question: Question) -> _Root | None:
    """What a question hangs on: the least that decides it; the turns of a loop where that is its whole condition."""
    name = question.name
    if name is None:
        return None
    found = min((part for part in parts(name) if _decides(part, name)), key=lambda part: part.depth, default=None)
    if question.turn is not None and (found is None or found.kind == "b"):
        return question.place
    return found if found is not None and found.kind in ("b", "i", "u") else None


def _decides(part: Name, name: Name) -> bool:
    """Whether a number is known where a part of its name is."""
    return all(exact(value(name, {part: number})) is not None for number in ((0, 1) if part.kind == "b" else _PROBES))


def _bound(name: Name) -> Name | None:
    """What the number of a loop's turns is compared with."""
    if not isinstance(name, Made) or name.operation[0] != "lt" or not isinstance(name.parts[0], int):
        return None
    return name.parts[1] if isinstance(name.parts[1], Leaf | Made) else None


def _cases(root: _Root, asked: Sequence[Question]) -> Iterator[_Case]:
    """One value for each way in which the questions can be answered."""
    if isinstance(root, tuple):
        yield from (_Case(root, turns, {asked[0]: turns}) for turns in _TURNS)
        return
    seen = set()
    for number in _tried(root, asked):
        answers = {question: _answer(question, root, number) for question in asked}
        known = {question: answer for question, answer in answers.items() if answer is not None}
        if len(known) == len(answers) and tuple(known.values()) not in seen:
            seen.add(tuple(known.values()))
            yield _Case(root, number, known)


def _tried(root: Name, asked: Sequence[Question]) -> Iterator[int]:
    """Small numbers, and those around the constants that it is compared with."""
    if root.kind == "b":
        yield from (0, 1)
        return
    near = {number for question in asked if question.name for number in constants(question.name)}
    further = {m for n in near if abs(n) < _LARGE for m in (n, n + 1, n - 1, 2 * n, 3 * n, 9 * n)} - set(_TRIED)
    for number in (*_TRIED, *sorted(further, key=lambda number: (abs(number), number))):
        if number >= 0 or root.kind == "i":
            yield number


def _answer(question: Question, root: Name, number: int) -> int | None:
    """Which way a branch goes; how many turns a loop makes, as far as it matters, or whether any."""
    assert question.name is not None
    said = exact(value(question.name, {root: number}))
    bound = None if question.turn is None else _bound(question.name)
    turns = None if bound is None or not said else exact(value(bound, {root: number}))
    return said if turns is None else next(bucket for bucket in reversed(_BUCKETS) if turns >= bucket)


def _given(question: Question, case: _Case, certain: bool) -> Given:
    root = _root(question)
    if isinstance(root, Leaf) and root.label:
        return Given(what="number", name=root.label, value=case.value, certain=certain)
    line = jaxapi.place(question.eqn).line
    what: Any = "branch" if question.turn is None else "turns"
    return Given(what=what, name=f"line {line}" if line else "", value=case.answers[question], certain=certain)
