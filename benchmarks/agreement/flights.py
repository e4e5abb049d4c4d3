"""Copies under way in numpy, by the rules of a TPU: semaphores count bytes, and copies end as late as waits allow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.agreement.simulate import Defect

type Array = np.ndarray[Any, Any]
type Place = tuple[str, int]
"""A buffer and a slot of it, or a chunk of an array."""


@dataclass
class _Flight:
    """A copy that may not have ended. ``units``: what it adds to its semaphore."""

    semaphore: Place
    units: int
    source: Place
    target: Place


@dataclass
class Memory:
    """Slots of buffers and chunks of arrays, and the copies between them.

    A copy takes its source when it starts and holds both of its ends until it has surely ended: until the waits on
    its semaphore have taken so much that all other copies on it are not enough.
    """

    held: dict[Place, Array] = field(default_factory=dict)
    counts: dict[Place, int] = field(default_factory=dict)
    """By semaphore, what was started on it and not waited for."""
    flights: list[_Flight] = field(default_factory=list)

    def start(self, source: Place, target: Place, semaphore: Place, units: int) -> None:
        """A copy begins."""
        value = self.read(source)
        for flight in self.flights:
            if target in (flight.target, flight.source):
                raise Defect(f"race: {target} is copied to while a copy from {flight.source} goes to {flight.target}")
        self.held[target] = value
        self.counts[semaphore] = self.counts.get(semaphore, 0) + units
        self.flights.append(_Flight(semaphore, units, source, target))

    def wait(self, semaphore: Place, units: int) -> None:
        """A wait takes as much as there is of one copy."""
        left = self.counts.get(semaphore, 0) - units
        if left < 0:
            raise Defect(f"hang: {semaphore} has {left + units} of {units}")
        self.counts[semaphore] = left
        self.flights = [f for f in self.flights if f.semaphore != semaphore or f.units <= left]

    def read(self, place: Place) -> Array:
        """What a place holds."""
        if any(flight.target == place for flight in self.flights):
            raise Defect(f"race: {place} is read while a copy goes there")
        if place not in self.held:
            raise Defect(f"garbage: {place} is read before anything was stored there")
        return self.held[place]

    def write(self, place: Place, value: Array) -> None:
        """A store."""
        if any(place in (flight.target, flight.source) for flight in self.flights):
            raise Defect(f"race: {place} is stored to while a copy reads or writes it")
        self.held[place] = value

    def end(self) -> None:
        """The kernel ends."""
        left = {semaphore: count for semaphore, count in self.counts.items() if count}
        if left:
            raise Defect(f"leak: semaphores hold {left} at the end")
