"""Meshes of devices: their axes, what is spread over them, the devices that kernels name."""

from __future__ import annotations

from typedpallas.events.slices import Step
from typedpallas.records import record


@record(frozen=True, kw_only=True)
class MeshAxis:
    """An axis of a mesh that is named somewhere and does not exist there."""

    name: str
    known: tuple[str, ...] | None
    """The axes that there are; none if unknown."""
    where: str
    """What names it, as messages write it."""


@record(frozen=True, kw_only=True)
class ShardRank:
    """A partition spec with more entries than the array has axes."""

    what: str
    spec: str
    length: int
    rank: int


@record(frozen=True, kw_only=True)
class RemoteDevice:
    """A device that a copy or a signal goes to: one coordinate of it, or its number among all."""

    axis: str | None
    """The mesh axis; none for a number among all devices."""
    size: int
    """How many devices there are along the axis, or in all."""
    outside: Step | None = None
    """A device of the mesh on which the coordinate is none of these; none if there is none, or it is not known."""
    given: int | None = None
    """How many coordinates are given, where that is not the mesh's number of axes, which is ``size`` then."""
