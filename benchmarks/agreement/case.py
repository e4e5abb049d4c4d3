"""A generated kernel: its source, its operands, and an oracle that knows what it does."""

from __future__ import annotations

import functools
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

type Arrays = Sequence[np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Outcome:
    """What a kernel does by the rules of its machine: the right values, or the first defect in words."""

    values: tuple[np.ndarray[Any, Any], ...] | None
    defect: str = ""


@dataclass(frozen=True)
class Built:
    """A kernel ready to be traced: ``run(*arrays, interpret=False)``."""

    run: Callable[..., Any]
    avals: tuple[Any, ...]


class Case(ABC):
    """One member of a family, drawn from a seed and reproducible from it."""

    family: ClassVar[str]
    machine: ClassVar[str]
    """``tpu`` or ``gpu``: whose compiler judges it."""

    @classmethod
    @abstractmethod
    def draw(cls, rng: random.Random) -> Self:
        """A member at random: mostly right kernels, some broken in one way."""

    @abstractmethod
    def source(self) -> str:
        """A module that defines ``run(*arrays, interpret=False)`` and ``ARGS``."""

    @abstractmethod
    def oracle(self, inputs: Arrays) -> Outcome:
        """What the kernel does, worked out in numpy without Pallas."""

    def in_order(self) -> Self:
        """The same on a chip with one core, where even parallel grid axes run in order."""
        return self

    def on(self, target: str) -> Self:
        """The same as it is written for a target, where that makes a difference."""
        return self

    def inputs(self, rng: np.random.Generator) -> Arrays:
        """Fresh operands: small whole numbers, exact in every element type."""
        return [rng.integers(-4, 5, aval.shape).astype(aval.dtype) for aval in self.build().avals]

    def build(self) -> Built:
        """The module, executed."""
        return _executed(self.source())


@functools.lru_cache(maxsize=8)
def _executed(source: str) -> Built:
    namespace: dict[str, Any] = {}
    exec(compile(source, "<case>", "exec"), namespace)
    return Built(namespace["run"], tuple(namespace["ARGS"]))
