"""Steps of a grid that are walked once: from the same memory, with the same ids as far as they are read, a body does
the same.

Claims name steps: only steps of which nothing is claimed are remembered, and what is left of them names the step
that it is about. A remembered step costs as many equations as it did.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow.cells import Cells
from typedpallas.tracing.flow.run import Frame, Run
from typedpallas.tracing.flow.state import Count, Flight, Ids, Origin, State


@dataclass(frozen=True)
class _Effect:
    """What a step does. With origins and copies go the numbers of their steps, in the order of the key's."""

    cells: Mapping[int, Cells]
    origins: Mapping[int, tuple[Origin, int]]
    counts: Mapping[int, tuple[Count, ...]]
    flights: tuple[tuple[Flight, int], ...]
    starts: Mapping[tuple[int, int | None], Flight]
    waited: frozenset[int]
    cost: int


class Memo:
    """What steps of one walk did."""

    def __init__(self, jaxpr: Any) -> None:
        self.axes = tuple(sorted(set(_axes(jaxpr))))
        """Whose ids the body asks for."""
        self._known: dict[Any, _Effect] = {}

    def walk(self, run: Run, jaxpr: Any, frame: Frame) -> None:
        """One step, from the state of ``run``."""
        found = self._key(run)
        if found is None:
            run.walk(run.plans.of(jaxpr), frame)
            return
        key, steps = found
        effect = self._known.get(key)
        if effect is not None:
            _again(run, effect, steps)
            return
        budget, claims, waited = run.budget, len(run.claims), set(run.waited)
        run.walk(run.plans.of(jaxpr), frame)
        if len(run.claims) == claims:
            effect = _effect(run, steps, budget - run.budget, waited)
            if effect is not None:
                self._known[key] = effect

    def _key(self, run: Run) -> tuple[Any, list[Ids]] | None:
        """What a step depends on, and the steps that garbage and copies under way are from, this one first."""
        state = run.state
        if any(flight.guards for flight in state.flights):
            return None
        steps, flights, origins = [run.ids], [], []
        for flight in state.flights:
            ends = flight.semaphore, flight.source, flight.target
            flights.append((id(flight.eqn), ends, flight.bits, flight.asked, _number(steps, flight.ids)))
        for number, origin in state.origins.items():
            what = number, origin.buffer, id(origin.eqn), id(origin.mixed), origin.element, origin.past, origin.made
            origins.append((*what, _number(steps, origin.ids)))
        read = tuple(exactly(run.ids[axis]) for axis in self.axes if axis < len(run.ids))
        held = tuple((k, v if isinstance(v, int) else (v.shape, v.tobytes())) for k, v in state.cells.items())
        # The first two only grow and the tables only become fewer, so that their sizes tell them apart.
        sizes = len(run.starts), len(run.waited), len(run.tables)
        return (read, held, tuple(state.counts.items()), tuple(flights), tuple(origins), sizes), steps


def _number(steps: list[Ids], ids: Ids) -> int:
    """The place of a step in a list, to which it is added where it is new."""
    if ids not in steps:
        steps.append(ids)
    return steps.index(ids)


def exactly(number: Any) -> Any:
    """A number as a key: one that lies a step apart is not the plain interval."""
    return None if number is None else (*number, getattr(number, "step", 1))


def _effect(run: Run, steps: list[Ids], cost: int, waited: set[int]) -> _Effect | None:
    """What was done since; none where copies of several steps became one."""
    if any(flight.guards or flight.ids not in steps for flight in run.state.flights):
        return None
    if any(origin.ids not in steps for origin in run.state.origins.values()):
        return None
    return _Effect(
        dict(run.state.cells),
        {key: (origin, steps.index(origin.ids)) for key, origin in run.state.origins.items()},
        dict(run.state.counts),
        tuple((flight, steps.index(flight.ids)) for flight in run.state.flights),
        {key: flight for key, flight in run.starts.items() if flight.ids is run.ids},
        frozenset(run.waited - waited),
        cost,
    )


def _again(run: Run, effect: _Effect, steps: list[Ids]) -> None:
    flights = tuple(replace(flight, ids=steps[number]) for flight, number in effect.flights)
    origins = {key: replace(origin, ids=steps[number]) for key, (origin, number) in effect.origins.items()}
    run.state = State(dict(effect.cells), origins, dict(effect.counts), flights)
    run.starts |= {key: replace(flight, ids=run.ids) for key, flight in effect.starts.items()}
    run.waited |= effect.waited
    run.spend(effect.cost)


def _axes(jaxpr: Any) -> Iterator[int]:
    """The axes whose ids a body asks for."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "program_id":
            yield eqn.params["axis"]
        for inner in jaxapi.inner_jaxprs(eqn):
            yield from _axes(inner)
