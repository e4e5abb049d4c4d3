"""Generated kernels, judged twice: by the rule book and by a vendor's compiler or interpreter.

``TYPEDPALLAS_SWEEP=500`` asks about that many of each kind; the default keeps the suite short. Samples are seeded, so
a failing one comes back.
"""

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import pytest

import typedpallas as tp

SAMPLES = int(os.environ.get("TYPEDPALLAS_SWEEP", "0"))
SEED = int(os.environ.get("TYPEDPALLAS_SWEEP_SEED", "0"))
TPUS = ("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-7x")


@dataclass(frozen=True)
class Kernel:
    """One generated kernel, in words that tell it apart."""

    words: str
    run: Callable[..., Any]
    args: tuple[jax.ShapeDtypeStruct, ...]


def samples(default: int, make: Callable[[random.Random], Kernel]) -> Iterator[Kernel]:
    """Kernels made from seeds in a row."""
    for number in range(SAMPLES or default):
        yield make(random.Random(f"{SEED}/{number}"))


def refusal(kernel: Kernel, target: str) -> str:
    """The compiler's words where it refuses the kernel; empty where it takes it."""
    try:
        tp.compile(kernel.run, *kernel.args, target=target)
    except tp.CompileError as error:
        if error.kind == "unavailable":
            pytest.skip(str(error))
        return " ".join(str(error).split()) or error.kind
    except (ValueError, TypeError, NotImplementedError) as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""


def verdicts(kernel: Kernel, target: str) -> dict[str, str]:
    """What the rule book says: each rule's slug to its gravest verdict."""
    found: dict[str, str] = {}
    for item in tp.check(kernel.run, *kernel.args, target=target).diagnostics:
        if found.get(item.rule) != "refuted":
            found[item.rule] = item.verdict
    return found


def refuted(found: dict[str, str]) -> set[str]:
    """The rules that refuse."""
    return {rule for rule, verdict in found.items() if verdict == "refuted"}
