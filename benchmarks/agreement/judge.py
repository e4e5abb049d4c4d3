"""One generated kernel on one chip: the checker beside the compiler and the oracle."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

import typedpallas as tp
from benchmarks.agreement.case import Case
from benchmarks.agreement.families import FAMILIES
from typedpallas import chips

type Kind = Literal["agree", "false-alarm", "miss", "open", "oracle-wrong", "no-answer"]

_MOST_GRID_POINTS = 4000


@dataclass(frozen=True)
class Record:
    """What was said about one kernel on one chip."""

    family: str
    seed: int
    target: str
    kind: Kind
    refuted: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    compiler: str = ""
    """``accepted``, ``refused``, ``crashed``, ``timeout``, or empty where it was not asked."""
    reason: str = ""
    """The compiler's first words."""
    defect: str = ""
    """The oracle's."""
    messages: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def draw(family: str, seed: int) -> Case:
    """The member of a family that a seed stands for; too large grids are drawn again from the same seed."""
    rng = random.Random(f"{family}-{seed}")
    while True:
        case = FAMILIES[family].draw(rng)
        if np.prod(getattr(case, "grid", ())) <= _MOST_GRID_POINTS:
            return case


def judge(family: str, seed: int, target: str) -> Record:
    """Ask all three about one kernel on one chip."""
    case = draw(family, seed).on(target)
    built = case.build()
    try:
        report = tp.check(built.run, *built.avals, target=target)
    except (TypeError, ValueError, NotImplementedError) as error:
        return Record(family, seed, target, "agree", compiler="refused", reason=f"while tracing: {error}"[:200])
    refuted = tuple(sorted({d.rule for d in report.diagnostics if d.verdict == "refuted"}))
    undecided = tuple(sorted({d.rule for d in report.diagnostics if d.verdict == "open"}))
    messages = tuple(d.message for d in report.diagnostics)
    inputs = case.inputs(np.random.default_rng(seed))
    outcome = (case.in_order() if _one_core(target) else case).oracle(inputs)
    compiler, reason = ("", "") if outcome.defect else _ask(built, target)
    right = not outcome.defect and compiler == "accepted"
    if outcome.values is not None and right and not _interpreted(built, inputs, outcome.values):
        kind: Kind = "oracle-wrong"
    elif compiler in ("timeout", "unavailable"):
        kind = "no-answer"
    elif refuted:
        kind = "false-alarm" if right else "agree"
    elif undecided:
        kind = "open"
    else:
        kind = "agree" if right else "miss"
    return Record(family, seed, target, kind, refuted, undecided, compiler, reason, outcome.defect, messages)


def _one_core(target: str) -> bool:
    chip = chips.get(target)
    return chip.machine == "tpu" and chip.cores == 1


def _ask(built: Any, target: str) -> tuple[str, str]:
    try:
        tp.compile(built.run, *built.avals, target=target, deadline=60.0)
    except tp.CompileError as error:
        return error.kind, error.reason
    except (TypeError, ValueError, NotImplementedError, AssertionError) as error:
        return "refused", f"while tracing: {error}"[:200]
    return "accepted", ""


def _interpreted(built: Any, inputs: Any, expected: tuple[Any, ...]) -> bool:
    """Whether interpret mode gives the oracle's values; what that of GPUs does not know counts as yes."""
    try:
        found = built.run(*inputs, interpret=True)
    except Exception as error:
        if isinstance(error, NotImplementedError) or "NotImplementedError" in str(error):
            return True
        raise
    found = found if isinstance(found, tuple | list) else (found,)
    pairs = zip(found, expected, strict=True)
    return all(np.array_equal(np.asarray(a, np.float32), np.asarray(b, np.float32)) for a, b in pairs)
