"""Hand-written pipelines: slots in turn, copies started ahead, results streamed out and drained; right and broken."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import HEAD
from benchmarks.agreement.flights import Memory
from benchmarks.agreement.simulate import Defect

type Op = Literal["start_x", "wait_x", "start_y", "wait_y", "use", "start_o", "wait_o"]
type Style = Literal["unrolled", "loop", "carried", "grid", "while"]

MISTAKES = (
    *("wait-dropped", "wait-twice", "used-first", "other-slot", "too-far-ahead", "past-the-end", "first-not-started"),
    *("not-drained", "drained-short", "drained-long", "reused-too-soon", "result-waited-late", "second-not-waited"),
)

_TESTS = {"<": int.__lt__, ">=": int.__ge__, "!=": int.__ne__, "==": int.__eq__}


@dataclass(frozen=True)
class Do:
    """One action of a turn, on the chunk that is ``ahead`` of the turn, where the turn's number passes a test."""

    op: Op
    ahead: int = 0
    test: Literal["", "<", ">=", "!=", "=="] = ""
    against: int = 0

    def comes(self, turn: int) -> bool:
        """Whether it is done in a turn."""
        return not self.test or bool(_TESTS[self.test](turn, self.against))


_SETUP = """
    def copy_x(i, slot):
        return pltpu.make_async_copy(x.at[pl.ds(i * {rows}, {rows}), :], x_slots.at[slot], {x_done})

    def copy_y(i, slot):
        return pltpu.make_async_copy(y.at[pl.ds(i * {rows}, {rows}), :], y_slots.at[slot], {y_done})

    def copy_o(i, slot):
        return pltpu.make_async_copy(o_slots.at[slot], o.at[pl.ds(i * {rows}, {rows}), :], {o_done})
"""
_LOOPS: dict[str, str] = {
    "loop": "    @pl.loop(0, {chunks})\n    def _(i):\n        at = {at}\n{body}",
    "carried": "    def turn(i, at):\n{body}        return {following}\n\n"
    "    jax.lax.fori_loop(0, {chunks}, turn, jnp.int32(0))\n",
    "while": "    def turn(i):\n        at = {at}\n{body}        return i + 1\n\n"
    "    jax.lax.while_loop(lambda i: i < {chunks}, turn, jnp.int32(0))\n",
    "grid": "    i = pl.program_id(0)\n    at = {at}\n{body}",
}


@dataclass(frozen=True)
class Pipelines(Case):
    """``2 * x``, or ``2 * x + y``, chunk by chunk.

    ``slots`` for what comes in, filled ``ahead`` of their use, before it or (``refill``) after it; ``out`` slots for
    results, none where they are stored straight away. ``done``: for ``x``, ``y`` and the results whether each slot
    has a semaphore, all slots one, or they count with ``x``.
    """

    family: ClassVar[str] = "pipelines"
    machine: ClassVar[Literal["tpu", "gpu"]] = "tpu"

    chunks: int
    rows: int
    columns: int
    second: int
    """Columns of ``y``; 0 where there is none."""
    dtype: str
    style: Style
    slots: int
    ahead: int
    refill: bool
    out: int
    done: tuple[str, str, str]
    mistake: str
    when: int
    """The turn in which a mistake of one turn is made."""

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Half of them without a mistake on purpose."""
        style: Style = rng.choice(("unrolled", "loop", "loop", "carried", "grid", "grid", "while"))
        chunks = rng.choice((2, 3, 4, 6) if style == "unrolled" else (3, 4, 7, 12, 20, 70, 150, 400))
        if style == "while":
            chunks = min(chunks, 20)
        slots, refill = rng.choice((1, 2, 2, 2, 3, 4)), rng.random() < 0.3
        ahead = rng.randint(1 if refill else 0, slots if refill else slots - 1)
        dtype = rng.choice(("float32", "float32", "bfloat16", "int32"))
        columns = rng.choice((128, 256))
        return cls(
            chunks=max(chunks, slots + 1),
            rows=16 if dtype == "bfloat16" else rng.choice((8, 16)),
            columns=columns,
            second=rng.choice((0, 0, columns, 128)),
            dtype=dtype,
            style=style,
            slots=slots,
            ahead=ahead,
            refill=refill,
            out=rng.choice((0, 0, 1, 2, 2, 3)),
            done=(
                rng.choice(("slot", "slot", "slot", "one")),
                rng.choice(("slot", "slot", "with-x", "one")),
                rng.choice(("slot", "slot", "one", "with-x")),
            ),
            mistake="" if rng.random() < 0.5 else rng.choice(MISTAKES),
            when=rng.randrange(max(chunks, slots + 1)),
        )

    def _fetches(self) -> list[Literal["x", "y"]]:
        return ["x", "y"] if self.second else ["x"]

    def _turn(self) -> Iterator[Do]:
        """What a turn does, in order."""
        fetched = list(self._fetch())
        waits = list(self._waits())
        use = [Do("use")]
        if self.out:
            first = self.out + (self.mistake == "reused-too-soon")
            freed = [Do("wait_o", -self.out, ">=", first)]
            late = self.mistake == "result-waited-late"
            use = [*use, Do("start_o"), *freed] if late else [*freed, *use, Do("start_o")]
        body = [*use, *waits] if self.mistake == "used-first" else [*waits, *use]
        yield from [*body, *fetched] if self.refill else [*fetched, *body]

    def _fetch(self) -> Iterator[Do]:
        ahead = self.ahead + (self.mistake == "too-far-ahead")
        last = self.chunks - ahead + (self.mistake == "past-the-end")
        for name in self._fetches():
            yield Do(f"start_{name}", ahead, "<", last)  # type: ignore[arg-type]

    def _waits(self) -> Iterator[Do]:
        for name in self._fetches():
            op: Any = f"wait_{name}"
            if self.mistake == "wait-dropped" and name == "x":
                yield Do(op, 0, "!=", self.when)
            elif self.mistake != "second-not-waited" or name == "x":
                yield Do(op)
            if self.mistake == "wait-twice" and name == "x":
                yield Do(op, 0, "==", self.when)

    def _before(self) -> Iterator[Do]:
        """What is started before the first turn; ``ahead`` is the chunk."""
        for chunk in range(self.mistake == "first-not-started", self.ahead + (self.mistake == "too-far-ahead")):
            for name in self._fetches():
                yield Do(f"start_{name}", chunk)  # type: ignore[arg-type]

    def _after(self) -> Iterator[Do]:
        """What is waited for after the last turn."""
        if not self.out or self.mistake == "not-drained":
            return
        extra = {"drained-short": 1, "drained-long": -1}.get(self.mistake, 0)
        for chunk in range(self.chunks - self.out + extra, self.chunks):
            yield Do("wait_o", chunk)

    # The text.

    def _done(self, which: int) -> str:
        how = self.done[which]
        name = "x" if how == "with-x" else "xyo"[which]
        if how == "with-x":
            shared = self.done[0] == "one"
            return f"x_done.at[{0 if shared else f'slot % {self.slots}'}]"
        return f"{name}_done.at[{'0' if how == 'one' else 'slot'}]"

    def _slot(self, do: Do, at: str) -> str:
        if do.op.endswith("_o"):
            return f"({_plus(at, do.ahead)}) % {self.out}"
        skew = 1 if do.op == "use" and self.mistake == "other-slot" else 0
        ahead = do.ahead + skew
        return f"({_plus(at, ahead % self.slots)}) % {self.slots}" if ahead or at != "at" else at

    def _line(self, do: Do, turn: str, at: str) -> str:
        """One action; ``turn`` is the turn's text, ``at`` that of its slot for what comes in."""
        if do.op == "use":
            taken, where = self._slot(do, at), f"pl.ds({turn} * {self.rows}, {self.rows}), :"
            width = self.second or self.columns
            value = f"x_slots[{taken}][:, :{width}] * 2" + (f" + y_slots[{taken}]" if self.second else "")
            if self.out:
                return f"o_slots[({turn}) % {self.out}] = {value}"
            return f"o[{'...' if self.style == 'grid' else where}] = {value}"
        verb, name = do.op.split("_")
        slot = self._slot(do, turn if name == "o" else at)
        return f"copy_{name}({_plus(turn, do.ahead)}, {slot}).{verb}()"

    def _body(self, indent: str) -> str:
        lines = []
        for do in self._turn():
            line = self._line(do, "i", "at")
            test = f"i {do.test} {do.against}"
            lines.append(f"{indent}pl.when({test})(lambda: {line})\n" if do.test else f"{indent}{line}\n")
        return "".join(lines)

    def _kernel(self) -> str:
        before = [self._line(do, "0", "0") for do in self._before()]
        after = [self._line(do, "0", "0") for do in self._after()]
        if self.style == "unrolled":
            turns = [self._line(do, str(i), str(i)) for i in range(self.chunks) for do in self._turn() if do.comes(i)]
            return "".join(f"    {line}\n" for line in (*before, *turns, *after))
        rem = f"i % {self.slots}" if self.when % 2 else f"jax.lax.rem(i, {self.slots})"
        following = "1 - at" if self.slots == 2 and self.when % 2 else f"(at + 1) % {self.slots}"
        indent = "    " if self.style == "grid" else "        "
        loop = _LOOPS[self.style].format(chunks=self.chunks, at=rem, following=following, body=self._body(indent))
        if self.style != "grid":
            return "".join(f"    {line}\n" for line in before) + loop + "".join(f"    {line}\n" for line in after)
        first, last = (f"    @pl.when(i == {at})\n    def _():\n" for at in (0, self.chunks - 1))
        text = "    i = pl.program_id(0)\n"
        text += first + "".join(f"        {line}\n" for line in before) if before else ""
        text += loop.removeprefix("    i = pl.program_id(0)\n")
        return text + (last + "".join(f"        {line}\n" for line in after) if after else "")

    def source(self) -> str:
        """A module with one `pallas_call`."""
        total, width = self.rows * self.chunks, self.second or self.columns
        setup = _SETUP.format(rows=self.rows, x_done=self._done(0), y_done=self._done(1), o_done=self._done(2))
        grid = f"grid=({self.chunks},)," if self.style == "grid" else ""
        window = (self.rows if self.style == "grid" else total, width)
        spec = f"pl.BlockSpec({window!r}, lambda {'i' if grid else ''}: ({'i' if grid else 0}, 0))"
        return f"""{HEAD}
ARGS = (
    jax.ShapeDtypeStruct({(total, self.columns)!r}, jnp.{self.dtype}),
    jax.ShapeDtypeStruct({(total, width)!r}, jnp.{self.dtype}),
)

def kernel(x, y, o, x_slots, y_slots, o_slots, x_done, y_done, o_done):
{setup}
{self._kernel()}
def run(x, y, interpret=False):
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        kernel,
        out_shape=ARGS[1],
        {grid}
        in_specs=[anywhere, anywhere],
        out_specs={"anywhere" if self.out else spec},
        scratch_shapes=[
            pltpu.VMEM({(self.slots, self.rows, self.columns)!r}, jnp.{self.dtype}),
            pltpu.VMEM({(self.slots, self.rows, width)!r}, jnp.{self.dtype}),
            pltpu.VMEM({(max(self.out, 1), self.rows, width)!r}, jnp.{self.dtype}),
            pltpu.SemaphoreType.DMA(({self.slots},)),
            pltpu.SemaphoreType.DMA(({self.slots},)),
            pltpu.SemaphoreType.DMA(({max(self.out, 1)},)),
        ],
        interpret=interpret,
    )(x, y)
"""

    # The oracle.

    def oracle(self, inputs: Arrays) -> Outcome:
        """Does every action in order."""
        x, y = inputs
        memory = Memory()
        for k in range(self.chunks):
            memory.held["x", k], memory.held["y", k] = self._part(x, k), self._part(y, k)
        try:
            for do in self._before():
                self._do(memory, do, 0)
            for turn in range(self.chunks):
                for do in self._turn():
                    if do.comes(turn):
                        self._do(memory, do, turn)
            for do in self._after():
                self._do(memory, do, 0)
            memory.end()
            out = np.concatenate([memory.read(("o", k)) for k in range(self.chunks)])
        except Defect as defect:
            return Outcome(None, str(defect))
        return Outcome((out,))

    def _part(self, array: np.ndarray[Any, Any], chunk: int) -> np.ndarray[Any, Any]:
        return array[chunk * self.rows : (chunk + 1) * self.rows]

    def _do(self, memory: Memory, do: Do, turn: int) -> None:
        chunk = turn + do.ahead
        if do.op == "use":
            slot = (chunk + (self.mistake == "other-slot")) % self.slots
            width = self.second or self.columns
            value = memory.read(("x_slots", slot))[:, :width] * 2
            if self.second:
                value = value + memory.read(("y_slots", slot))
            value = value.astype(memory.held["x", 0].dtype)
            memory.write(("o_slots", chunk % self.out) if self.out else ("o", chunk), value)
            return
        verb, name = do.op.split("_")
        if not 0 <= chunk < self.chunks:
            raise Defect(f"outside: chunk {chunk} of {self.chunks}")
        slot = chunk % (self.out if name == "o" else self.slots)
        semaphore, units = self._semaphore(name, slot), (self.columns if name == "x" else self.second or self.columns)
        if verb == "wait":
            memory.wait(semaphore, units)
        elif name == "o":
            memory.start(("o_slots", slot), ("o", chunk), semaphore, units)
        else:
            memory.start((name, chunk), (f"{name}_slots", slot), semaphore, units)

    def _semaphore(self, name: str, slot: int) -> tuple[str, int]:
        how = self.done["xyo".index(name)]
        if how == "with-x":
            return "x", 0 if self.done[0] == "one" else slot % self.slots
        return name, 0 if how == "one" else slot


def _plus(text: str, more: int) -> str:
    """``text + more``; one number where both are."""
    if text.isdigit():
        return str(int(text) + more)
    return text if not more else f"{text} {'+' if more > 0 else '-'} {abs(more)}"
