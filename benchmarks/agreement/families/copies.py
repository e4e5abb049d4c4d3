"""Copies from HBM through a buffer: whole, in chunks, double buffered; waited for once, never, twice, too late."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import HEAD
from benchmarks.agreement.simulate import Defect

type Mistake = Literal["none", "last-not-waited", "never-waited", "waited-twice", "used-first", "one-slot"]
type Action = tuple[Literal["start", "wait", "use"], int]
"""What is done, and to which chunk; chunk -1 is all of them in one wait."""

_SETUP = """
    def copy(i):
        return pltpu.make_async_copy(x.at[pl.ds(i * {rows}, {rows}), :], buffer.at[{slot}], done.at[{semaphore}])

    def use(i):
        o[{where}, :] = buffer[{slot}] * 2
"""
_TOGETHER = """
    def everything():
        return pltpu.make_async_copy(buffer, buffer, done.at[0])
"""
_WHEN = """
    @pl.when({condition})
    def _():
        {action}
"""


@dataclass
class _Machine:
    """Semaphores in chunks, and what is under way into each slot."""

    counts: dict[int, int] = field(default_factory=dict)
    under_way: dict[int, list[int]] = field(default_factory=dict)
    """By semaphore, the slots of copies that nobody has waited for."""
    held: dict[int, int] = field(default_factory=dict)

    def start(self, chunk: int, slot: int, semaphore: int) -> None:
        """A copy begins."""
        if any(slot in slots for slots in self.under_way.values()):
            raise Defect(f"race: chunk {chunk} is copied over slot {slot} while another copy goes there")
        self.counts[semaphore] = self.counts.get(semaphore, 0) + 1
        self.under_way.setdefault(semaphore, []).append(slot)
        self.held[slot] = chunk

    def wait(self, semaphore: int, chunks: int) -> None:
        """A wait for as many chunks."""
        if self.counts.get(semaphore, 0) < chunks:
            raise Defect(f"hang: semaphore {semaphore} has {self.counts.get(semaphore, 0)} chunks of {chunks}")
        self.counts[semaphore] -= chunks
        if not self.counts[semaphore]:
            self.under_way[semaphore] = []

    def use(self, slot: int) -> int:
        """The chunk that a slot holds."""
        if any(slot in slots for slots in self.under_way.values()):
            raise Defect(f"race: slot {slot} is read while a copy goes there")
        return self.held[slot]

    def end(self) -> None:
        """The kernel ends."""
        left = {semaphore: count for semaphore, count in self.counts.items() if count}
        if left:
            raise Defect(f"leak: semaphores hold {left} chunks at the end")


@dataclass(frozen=True)
class Copies(Case):
    """``x * 2``, chunk by chunk through a buffer in VMEM, on a TPU.

    ``style``: all chunks at once in a row (``burst``), two slots in turn in a loop (``loop``) or over the grid
    (``grid``). ``wait``: for each chunk, or for all of them in one. ``shared``: one semaphore for all chunks.
    """

    family: ClassVar[str] = "copies"
    machine: ClassVar[Literal["tpu", "gpu"]] = "tpu"

    rows: int
    columns: int
    chunks: int
    dtype: str
    style: Literal["burst", "loop", "grid"]
    shared: bool
    together: bool
    mistake: Mistake

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Half of them right."""
        style = rng.choice(("burst", "loop", "grid"))
        chunks = rng.choice((1, 2, 3, 4, 6) if style == "burst" else (2, 3, 4, 8, 16))
        together = style == "burst" and rng.random() < 0.3
        mistakes: list[Mistake] = ["last-not-waited", "never-waited", "waited-twice", "used-first"]
        if style != "burst":
            mistakes.append("one-slot")
        if together:
            mistakes = ["never-waited", "waited-twice", "used-first"]
        return cls(
            rng.choice((8, 16)),
            rng.choice((128, 256)),
            chunks,
            rng.choice(("float32", "float32", "bfloat16", "int32")),
            style,
            together or (style == "burst" and rng.random() < 0.5),
            together,
            "none" if rng.random() < 0.5 else rng.choice(mistakes),
        )

    @property
    def _slots(self) -> int:
        return self.chunks if self.style == "burst" else 2

    def _slot(self, chunk: int) -> int:
        return 0 if self.mistake == "one-slot" else chunk % self._slots

    def source(self) -> str:
        """A module with one `pallas_call`."""
        rows, total = self.rows, self.rows * self.chunks
        slot = "0" if self.mistake == "one-slot" else f"jax.lax.rem(i, {self._slots})"
        if self.style == "burst":
            slot = "i"
        text = _SETUP.format(
            rows=rows,
            slot=slot,
            semaphore="0" if self.shared else slot,
            where=":" if self.style == "grid" else f"pl.ds(i * {rows}, {rows})",
        )
        body = {"burst": self._burst, "loop": self._loop, "grid": self._grid}[self.style]()
        block = (rows if self.style == "grid" else total, self.columns)
        grid = f"grid=({self.chunks},)," if self.style == "grid" else ""
        out = f"out_specs=pl.BlockSpec({block!r}, lambda i: (i, 0))," if self.style == "grid" else ""
        return f"""{HEAD}
ARGS = (jax.ShapeDtypeStruct({(total, self.columns)!r}, jnp.{self.dtype}),)

def kernel(x, o, buffer, done):
{text}{_TOGETHER if self.together else ""}{body}

def run(x, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=ARGS[0],
        {grid}
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        {out}
        scratch_shapes=[
            pltpu.VMEM({(self._slots, rows, self.columns)!r}, jnp.{self.dtype}),
            pltpu.SemaphoreType.DMA(({1 if self.shared else self._slots},)),
        ],
        interpret=interpret,
    )(x)
"""

    def _burst(self) -> str:
        lines = []
        for action, chunk in self._schedule():
            if action == "use":
                lines.append(f"use({chunk})")
            else:
                lines.append(f"{'everything()' if chunk < 0 else f'copy({chunk})'}.{action}()")
        return "".join(f"\n    {line}" for line in lines)

    def _turn(self) -> str:
        """One turn of the double-buffered loop; ``i`` is its number."""
        waits = {"never-waited": "", "waited-twice": "    copy(i).wait()\n    copy(i).wait()"}
        wait = waits.get(self.mistake, "    copy(i).wait()")
        if self.mistake == "last-not-waited":
            wait = _WHEN.format(condition=f"i < {self.chunks - 1}", action="copy(i).wait()")
        ahead = _WHEN.format(condition=f"i + 1 < {self.chunks}", action="copy(i + 1).start()")
        parts = [ahead, "    use(i)", wait] if self.mistake == "used-first" else [ahead, wait, "    use(i)"]
        return "\n".join(parts)

    def _loop(self) -> str:
        turn = "\n".join(f"    {line}" for line in self._turn().splitlines())
        return f"\n    copy(0).start()\n\n    @pl.loop(0, {self.chunks})\n    def _(i):\n{turn}\n"

    def _grid(self) -> str:
        first = _WHEN.format(condition="i == 0", action="copy(0).start()")
        return f"\n    i = pl.program_id(0)\n{first}\n{self._turn()}\n"

    def _schedule(self) -> Iterator[Action]:
        """Every action in order."""
        chunks = range(self.chunks)
        if self.style != "burst":
            yield "start", 0
            for i in chunks:
                if i + 1 < self.chunks:
                    yield "start", i + 1
                yield from self._waited([i])
            return
        for i in chunks:
            yield "start", i
        yield from self._waited(list(chunks))

    def _waited(self, chunks: list[int]) -> Iterator[Action]:
        waits: list[Action] = [("wait", -1)] if self.together else [("wait", i) for i in chunks]
        if self.mistake == "never-waited":
            waits = []
        if self.mistake == "last-not-waited":
            waits = [wait for wait in waits if wait[1] != self.chunks - 1]
        if self.mistake == "waited-twice":
            waits += waits[-1:]
        uses: list[Action] = [("use", i) for i in chunks]
        yield from (*uses, *waits) if self.mistake == "used-first" else (*waits, *uses)

    def oracle(self, inputs: Arrays) -> Outcome:
        """Runs the schedule."""
        (x,) = inputs
        out = np.zeros_like(x)
        machine = _Machine()
        try:
            for action, chunk in self._schedule():
                slot = self._slot(max(chunk, 0))
                semaphore = 0 if self.shared else slot
                if action == "start":
                    machine.start(chunk, slot, semaphore)
                elif action == "wait":
                    machine.wait(semaphore, self.chunks if chunk < 0 else 1)
                else:
                    held = machine.use(slot)
                    out[chunk * self.rows : (chunk + 1) * self.rows] = (
                        x[held * self.rows : (held + 1) * self.rows] * 2
                    )
            machine.end()
        except Defect as defect:
            return Outcome(None, str(defect))
        return Outcome((out,))
