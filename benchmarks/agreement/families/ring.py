"""Copies and signals around a ring of devices that all run the same kernel: balanced, or one too many or too few."""

from __future__ import annotations

import random
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import HEAD

type Op = Literal["start", "sent", "came", "signal", "meet"]
type Action = tuple[Op, int, str]
"""What is done, in which slot or, of signals, to how far a neighbour, and on which devices: a condition on ``me``."""

_CONDITIONS = ("me == 0", "me > 0", "me < {last}", "me == {last}", "me % 2 == 0")
_SETUP = """
    me = jax.lax.axis_index("ring")

    def copy(slot):
        to = (me + 1 + slot) % {devices}
        return pltpu.make_async_remote_copy(
            x, slots.at[slot], sent.at[slot], came.at[{came}], device_id=to, device_id_type=pl.DeviceIdType.LOGICAL
        )

    def signal(by):
        pl.semaphore_signal(ready, 1, device_id=(me + by) % {devices}, device_id_type=pl.DeviceIdType.LOGICAL)
"""
_CALLS = {
    "start": "copy({}).start()",
    "sent": "copy({}).wait_send()",
    "came": "copy({}).wait_recv()",
    "signal": "signal({})",
    "meet": "pl.semaphore_wait(ready, {})",
}


@dataclass(frozen=True)
class Ring(Case):
    """Each device sends what it has to one or two others, perhaps several times, and waits. On TPUs."""

    family: ClassVar[str] = "ring"
    machine: ClassVar[Literal["tpu", "gpu"]] = "tpu"

    devices: int
    shared: bool
    turns: int
    actions: tuple[Action, ...]

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Half of them broken; conditions on the device only in those that are right."""
        while True:
            actions = _turn(rng)
            guarded = rng.random() < 0.25
            if guarded:
                last = 3
                test = rng.choice(_CONDITIONS).format(last=last)
                actions = [(op, what, test if rng.random() < 0.5 else "") for op, what, _ in actions]
            elif rng.random() < 0.5:
                at = rng.randrange(len(actions))
                actions[at : at + 1] = [actions[at]] * rng.choice((0, 2))
            case = cls(
                4 if guarded else rng.choice((2, 3, 4)), rng.random() < 0.3, rng.choice((1, 1, 3)), tuple(actions)
            )
            if not (guarded and case._defect()):
                return case

    def source(self) -> str:
        """A module with one `pallas_call` inside a `shard_map`."""
        body = "".join(_line(action) for action in self.actions)
        if self.turns > 1:
            body = f"\n    @pl.loop(0, {self.turns})\n    def _(turn):\n" + textwrap.indent(body, "    ")
        came = "0" if self.shared else "slot"
        return f"""{HEAD}
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

ARGS = (jax.ShapeDtypeStruct(({8 * self.devices}, 128), jnp.float32),)

def kernel(x, o, slots, sent, came, ready, done):
{_SETUP.format(devices=self.devices, came=came)}{body}
    copied = pltpu.make_async_copy(x, o, done)
    copied.start()
    copied.wait()

def local(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[
            pltpu.VMEM((2, 8, 128), jnp.float32),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.SemaphoreType.REGULAR,
            pltpu.SemaphoreType.DMA,
        ],
    )(x)

def run(x, interpret=False):
    if interpret:
        raise NotImplementedError("a ring takes more devices than one")
    mesh = AbstractMesh(({self.devices},), ("ring",), axis_types=(AxisType.Auto,))
    spec = PartitionSpec("ring")
    return jax.shard_map(local, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)(x)
"""

    def oracle(self, inputs: Arrays) -> Outcome:
        """Lets every device go on until it waits in vain; at the end no semaphore may have anything left."""
        defect = self._defect()
        return Outcome(None, defect) if defect else Outcome(tuple(np.asarray(array) for array in inputs))

    def _defect(self) -> str:
        programs = [self._program(me) for me in range(self.devices)]
        at, held = [0] * self.devices, Counter[tuple[int, str, int]]()
        moved = True
        while moved:
            moved = False
            for me, program in enumerate(programs):
                while at[me] < len(program) and self._step(me, program[at[me]], held):
                    at[me] += 1
                    moved = True
        if any(at[me] < len(program) for me, program in enumerate(programs)):
            return f"hang: {[program[at[me]] for me, program in enumerate(programs) if at[me] < len(program)]}"
        left = {key: count for key, count in held.items() if count}
        return f"leak: {left}" if left else ""

    def _program(self, me: int) -> Sequence[Action]:
        turn = [a for a in self.actions if not a[2] or bool(eval(a[2], {}, {"me": me}))]
        return turn * self.turns

    def _step(self, me: int, action: Action, held: Counter[tuple[int, str, int]]) -> bool:
        """Do one thing, if it can be done now."""
        op, what, _ = action
        came = 0 if self.shared else what
        if op == "start":
            held[me, "sent", what] += 1
            held[(me + 1 + what) % self.devices, "came", came] += 1
            return True
        if op == "signal":
            held[(me + what) % self.devices, "ready", 0] += 1
            return True
        key = {"sent": (me, "sent", what), "came": (me, "came", came), "meet": (me, "ready", 0)}[op]
        wanted = what if op == "meet" else 1
        if held[key] < wanted:
            return False
        held[key] -= wanted
        return True


def _line(action: Action) -> str:
    op, what, condition = action
    call = _CALLS[op].format(what)
    return f"    {call}\n" if not condition else f"\n    @pl.when({condition})\n    def _():\n        {call}\n\n"


def _turn(rng: random.Random) -> list[Action]:
    """A turn that is right: neighbours may meet, then each sends and waits."""
    found: list[Action] = []
    if rng.random() < 0.6:
        far = rng.choice(([1], [-1], [1, -1]))
        found += [("signal", by, "") for by in far]
        found.append(("meet", len(far), ""))
    for slot in range(rng.choice((1, 1, 2))):
        waits: list[Action] = [("sent", slot, ""), ("came", slot, "")]
        rng.shuffle(waits)
        found += [("start", slot, ""), *waits]
    return found
