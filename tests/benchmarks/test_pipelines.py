"""Generated pipelines: the checker says what the oracle says, also of those that it once did not understand."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest

import typedpallas as tp
from benchmarks.agreement.flights import Memory
from benchmarks.agreement.judge import draw
from benchmarks.agreement.simulate import Defect

ONCE_MISSED = {
    133: "a wait left out in one turn in the middle of a long loop",
    220: "a slot that was never filled, used in the first turn of a long loop",
    80038: "a wait left out in one step in the middle of a long grid",
    3006: "slots of two numbers in turn over a long grid, copies out on one semaphore",
}


@pytest.mark.parametrize("seed", [*range(12), *ONCE_MISSED], ids=lambda seed: ONCE_MISSED.get(seed, str(seed)))
def test_the_checker_and_the_oracle_agree(seed: int) -> None:
    case = draw("pipelines", seed)
    built = case.build()
    report = tp.check(built.run, *built.avals, target="tpu-v5e")
    outcome = case.oracle(case.inputs(np.random.default_rng(seed)))
    assert report.ok == (not outcome.defect), f"{outcome.defect}\n{report}"


def test_copies_end_as_late_as_waits_allow() -> None:
    one, other, semaphore = np.zeros(1), np.ones(1), ("done", 0)
    memory = Memory({("x", 0): one, ("x", 1): other})
    memory.start(("x", 0), ("slots", 0), semaphore, 8)
    memory.start(("x", 1), ("slots", 1), semaphore, 8)
    memory.wait(semaphore, 8)
    with pytest.raises(Defect, match="race"):
        memory.read(("slots", 0))
    memory.wait(semaphore, 8)
    assert memory.read(("slots", 0)) is one and memory.read(("slots", 1)) is other
    memory.end()
    with pytest.raises(Defect, match="hang"):
        memory.wait(semaphore, 8)


def test_a_small_copy_cannot_end_the_wait_for_a_large_one() -> None:
    memory = Memory({("x", 0): np.zeros(1), ("x", 1): np.ones(1)})
    memory.start(("x", 0), ("slots", 0), ("done", 0), 16)
    memory.start(("x", 1), ("slots", 1), ("done", 0), 8)
    memory.wait(("done", 0), 16)
    memory.read(("slots", 0))
    with pytest.raises(Defect, match="race"):
        memory.read(("slots", 1))
