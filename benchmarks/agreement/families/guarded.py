"""Copies whose starts and waits hang on a number that is loaded: under conditions, and in loops of so many turns."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import HEAD
from benchmarks.agreement.flights import Memory
from benchmarks.agreement.simulate import Defect

type Action = tuple[str, int, int, str]
"""What is done (``start``, ``wait``, ``use``), the slot, how many chunks ahead of the turn, under which condition."""

_NUMBERS, _EACH = range(13), range(6)
"""What the number may be, and what each step's may be: what is right for all of these is right."""
_CONDITIONS = ("n > 0", "n >= 1", "n > 2", "n >= 3", "n == 4", "n != 4", "n < 5", "n % 2 == 0", "n % 2 == 1", "")
_TURNS = ("", "", "i + 1 < n", "i < n - 1", "i + 2 < n", "i > 0", "i >= 1", "n > 0")
_SETUP = """
    def copy(i, slot):
        return pltpu.make_async_copy(x.at[pl.ds(i % 16 * {rows}, {rows}), :], slots.at[slot], done.at[{semaphore}])

    def use(slot):
        o[...] += slots[slot]

    o[...] = jnp.zeros_like(o)
    slots[...] = jnp.zeros_like(slots)
    n = table[{entry}]{through}
"""


def _holds(condition: str, **numbers: int) -> bool:
    return not condition or bool(eval(condition, {}, numbers))


@dataclass(frozen=True)
class Guarded(Case):
    """A sum of chunks that a loaded number chooses, on a TPU.

    ``entry`` of a table is the number; where it is none each step has its own. ``before``, ``turn`` (of a loop of
    ``n`` turns) and ``after`` are what is done, each under a condition on ``n``.
    """

    family: ClassVar[str] = "guarded"
    machine: ClassVar[Literal["tpu", "gpu"]] = "tpu"

    rows: int
    grid: int
    entry: int | None
    through: str
    shared: bool
    loop: bool
    before: tuple[Action, ...]
    turn: tuple[Action, ...]
    after: tuple[Action, ...]

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Right for every number, or wrong wherever one of its conditions goes one way; the others are rare."""
        while True:
            case = cls._any(rng)
            if case.truth != "sometimes" or rng.random() < 0.03:
                return case

    @classmethod
    def _any(cls, rng: random.Random) -> Self:
        loop = rng.random() < 0.5
        before, turn, after = _loop(rng) if loop else (_straight(rng), (), ())
        return cls(
            rng.choice((8, 16)),
            grid := rng.choice((1, 1, 3)),
            rng.randrange(3) if grid == 1 or rng.random() < 0.5 else None,
            rng.choice(("", "", " * 2 // 2", " + 0 * table[0]")),
            rng.random() < 0.3,
            loop,
            tuple(before),
            tuple(turn),
            tuple(after),
        )

    @property
    def truth(self) -> Literal["right", "wrong", "sometimes"]:
        """Whether it is right for each number, or wrong wherever some condition goes one way or its loop turns."""
        found = {numbers: self._defect(numbers) for numbers in self._numbers()}
        fails = {numbers for numbers, defect in found.items() if defect}
        if not fails:
            return "right"
        conditions = {action[3] for action in (*self.before, *self.after) if action[3]}
        ways = [
            [ns for ns in found if any(_holds(c, n=n) is w for n in ns)] for c in conditions for w in (True, False)
        ]
        ways += [[numbers for numbers in found if any(numbers)]] if self.loop else []
        if any(way and fails.issuperset(way) and len({found[n].split(":")[0] for n in way}) == 1 for way in ways):
            return "wrong"
        return "sometimes"

    def _numbers(self) -> list[tuple[int, ...]]:
        """What the numbers of all steps may be."""
        if self.entry is None:
            return list(itertools.product(_EACH, repeat=self.grid))
        return [(n,) * self.grid for n in _NUMBERS]

    def source(self) -> str:
        """A module with one `pallas_call`."""
        rows = self.rows
        text = _SETUP.format(
            rows=rows,
            semaphore="0" if self.shared else "slot",
            entry="pl.program_id(0)" if self.entry is None else self.entry,
            through=self.through,
        )
        body = "".join(_line(action, "0", "    ") for action in self.before)
        if self.loop:
            turn = "".join(_line(action, "i", "        ") for action in self.turn)
            body += f"\n    @pl.loop(0, n)\n    def _(i):\n{turn}"
        body += "".join(_line(action, "n - 1", "    ") for action in self.after)
        return f"""{HEAD}
ARGS = (
    jax.ShapeDtypeStruct((3,), jnp.int32),
    jax.ShapeDtypeStruct({(16 * rows, 128)!r}, jnp.float32),
)

def kernel(table, x, o, slots, done):
{text}{body}

def run(table, x, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct({(rows, 128)!r}, jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=({self.grid},),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec({(rows, 128)!r}, lambda i, table: (0, 0)),
            scratch_shapes=[
                pltpu.VMEM({(2, rows, 128)!r}, jnp.float32),
                pltpu.SemaphoreType.DMA((2,)),
            ],
        ),
        interpret=interpret,
    )(table, x)
"""

    def inputs(self, rng: np.random.Generator) -> Arrays:
        """Numbers for which it is right, if there are any."""
        right = [numbers for numbers in self._numbers() if not self._defect(numbers)] or [(1,) * self.grid]
        numbers = right[rng.integers(len(right))]
        table = np.array(numbers if self.entry is None else [numbers[0]] * 3, np.int32)
        return [table, rng.integers(-4, 5, (16 * self.rows, 128)).astype(np.float32)]

    def oracle(self, inputs: Arrays) -> Outcome:
        """What it does for these numbers; a kernel that is wrong wherever a condition goes one way is wrong."""
        table, x = inputs
        if self.truth == "wrong":
            return Outcome(None, next(defect for defect in map(self._defect, self._numbers()) if defect))
        numbers = table if self.entry is None else [table[self.entry]] * self.grid
        return Outcome((self._run([int(n) for n in numbers], x),))

    def _defect(self, numbers: Sequence[int]) -> str:
        try:
            self._run(numbers, np.zeros((16 * self.rows, 128), np.float32))
        except Defect as defect:
            return str(defect)
        return ""

    def _run(self, numbers: Sequence[int], x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        out = np.zeros((self.rows, 128), np.float32)
        memory = Memory({("x", k): x[k * self.rows : (k + 1) * self.rows] for k in range(16)})
        for n in numbers:
            out = np.zeros_like(out)
            for slot in range(2):
                memory.write(("slot", slot), np.zeros_like(out))
            for kind, slot, chunk in self._schedule(n):
                at = slot % 2
                semaphore = ("done", 0 if self.shared else at)
                if kind == "start":
                    memory.start(("x", chunk % 16), ("slot", at), semaphore, 1)
                elif kind == "wait":
                    memory.wait(semaphore, 1)
                else:
                    out = out + memory.read(("slot", at))
        memory.end()
        return out

    def _schedule(self, n: int) -> Iterator[tuple[str, int, int]]:
        for kind, slot, ahead, condition in self.before:
            if _holds(condition, n=n):
                yield kind, slot, ahead
        for i in range(n) if self.loop else ():
            for kind, slot, ahead, condition in self.turn:
                if _holds(condition, n=n, i=i):
                    yield kind, i + ahead if slot < 0 else slot, i + ahead
        for kind, slot, ahead, condition in self.after:
            if _holds(condition, n=n):
                yield kind, n - 1 + ahead if slot < 0 else slot, n - 1 + ahead


def _line(action: Action, turn: str, indent: str) -> str:
    kind, slot, ahead, condition = action
    chunk = f"{turn} + {ahead}"
    at = f"({chunk}) % 2" if slot < 0 else str(slot)
    call = f"use({at})" if kind == "use" else f"copy({chunk}, {at}).{kind}()"
    if not condition:
        return f"{indent}{call}\n"
    return f"\n{indent}@pl.when({condition})\n{indent}def _():\n{indent}    {call}\n\n"


def _straight(rng: random.Random) -> list[Action]:
    """Starts and waits of one or two slots, in order, mostly each pair under one condition."""
    found: list[Action] = []
    for slot in range(rng.choice((1, 1, 2))):
        started = rng.choice(_CONDITIONS)
        awaited = started if rng.random() < 0.6 else rng.choice(_CONDITIONS)
        used = rng.choice((awaited, "", started))
        actions: list[Action] = [
            ("start", slot, slot, started),
            ("wait", slot, slot, awaited),
            ("use", slot, 0, used),
        ]
        if rng.random() < 0.2:
            actions = [actions[0], actions[2], actions[1]]
        found = _merged(rng, found, actions)
    return found


def _merged(rng: random.Random, left: Sequence[Action], right: Sequence[Action]) -> list[Action]:
    first, second = list(left), list(right)
    found = []
    while first or second:
        found.append((first if first and (not second or rng.random() < 0.5) else second).pop(0))
    return found


def _loop(rng: random.Random) -> tuple[list[Action], list[Action], list[Action]]:
    """A turn that starts its own chunk, or the next one's."""
    make: Callable[[random.Random], Any] = rng.choice((_in_turn, _ahead, _ahead))
    return make(rng)  # type: ignore[no-any-return]


def _in_turn(rng: random.Random) -> tuple[list[Action], list[Action], list[Action]]:
    turn: list[Action] = [("start", -1, 0, ""), ("wait", -1, 0, ""), ("use", -1, 0, "")]
    mistake = rng.choice(("", "", "drop", "drop", "swap", "twice", "guard"))
    if mistake == "drop":
        del turn[rng.randrange(2)]
    elif mistake == "swap":
        turn[1], turn[2] = turn[2], turn[1]
    elif mistake == "twice":
        turn.insert(2, turn[rng.randrange(2)])
    elif mistake == "guard":
        at = rng.randrange(2)
        turn[at] = (*turn[at][:3], rng.choice(_TURNS))
    return [], turn, []


def _ahead(rng: random.Random) -> tuple[list[Action], list[Action], list[Action]]:
    first = rng.choice(("n > 0", "n >= 1", "n > 0", ""))
    more = rng.choice(("i + 1 < n", "i < n - 1", "i + 1 < n", rng.choice(_TURNS)))
    turn: list[Action] = [
        ("start", -1, 1, more),
        ("wait", -1, 0, rng.choice(("", "", "", "i > 0"))),
        ("use", -1, 0, ""),
    ]
    if rng.random() < 0.15:
        turn[1], turn[2] = turn[2], turn[1]
    before: list[Action] = [("start", 0, 0, first)] if rng.random() < 0.9 else []
    after: list[Action] = [] if rng.random() < 0.8 else [("wait", -1, rng.choice((0, 1)), rng.choice(("n > 0", "")))]
    return before, turn, after
