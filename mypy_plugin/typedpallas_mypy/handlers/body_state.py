"""What is known at one place of one path through a body, and what was found at a place on all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from mypy import nodes as n

from typedpallas.dims import Size
from typedpallas.records import record
from typedpallas_mypy.handlers.body_counts import Op
from typedpallas_mypy.handlers.body_flights import Flights, Use
from typedpallas_mypy.handlers.body_steps import Step
from typedpallas_mypy.handlers.body_text import Region

type Key = tuple[n.Var, Region]
"""A semaphore: one element of an array of them, or all of it where some element cannot be told."""


@dataclass
class State:
    """What is known at one place of one path."""

    balance: dict[Key, Size] = field(default_factory=dict)
    flights: Flights = field(default_factory=Flights)
    answers: dict[object, bool] = field(default_factory=dict)
    lost: set[n.Var] = field(default_factory=set)
    """Semaphores of which nothing is known any more."""
    started: list[Op] = field(default_factory=list)
    steps: frozenset[Step] = frozenset(("first", "last"))
    """The steps, of any grid, that surely go this way."""

    def copied(self) -> State:
        """A state that goes its own way from here."""
        flights, answers = self.flights.copied(), dict(self.answers)
        return State(dict(self.balance), flights, answers, set(self.lost), list(self.started), self.steps)


@record(frozen=True)
class Starved:
    """A wait for more than there can be."""

    op: Op
    there: Size


@dataclass
class Tally:
    """How often a place was reached, and on how many paths something was wrong there."""

    reached: int = 0
    surely: bool = False
    """Whether some step of any grid surely comes here."""
    wrong: list[Use | Starved] = field(default_factory=list)

    def reach(self, state: State) -> None:
        """Note one path."""
        self.reached += 1
        self.surely = self.surely or bool(state.steps)

    @property
    def always(self) -> bool:
        """Whether it was wrong on every path, and one of them is surely gone."""
        return self.surely and bool(self.wrong) and len(self.wrong) == self.reached
