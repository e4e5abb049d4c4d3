"""What JAX and the vendor's compiler say of one subject; kept, because it changes only with the source or JAX."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import jax

from benchmarks.mutants import interpret
from benchmarks.mutants.subjects import Module
from typedpallas.compilers import CompileError, compile_lowered, lower_for
from typedpallas.compilers.ambient import target_context
from typedpallas.diagnostics import PlacementError
from typedpallas.launching import checks
from typedpallas.launching.errors import LaunchError
from typedpallas.pattern import PatternError

_FRESH = get_context("forkserver")
_FRESH.set_forkserver_preload(["benchmarks.mutants.interpret"])
"""Fresh processes that have JAX imported and nothing computed yet."""

_DEADLINE = 45.0
"""Seconds for interpret mode, both ways together; it may hang on a wait that nothing ends."""

NOT_REACHED = "-"


@dataclass(frozen=True)
class Answers:
    """Each ``ok``, ``-`` (an earlier stage stopped it, or there is no such stage) or what was said."""

    trace: str
    lower: str
    hlo: str
    machine: str
    compiler: str

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def key(source: str, target: str) -> str:
    """Names the answers: they are the same as long as this is."""
    return hashlib.sha256("\0".join([source, target, jax.__version__]).encode()).hexdigest()[:24]


def ask(module: Module, file: Path, target: str) -> Answers:
    """Ask everybody but typedpallas, whose own checks are off meanwhile."""
    with checks.left_to_the_compiler():
        traced = _traced(module, target)
        if traced != "ok":
            return Answers(traced, *[NOT_REACHED] * 4)
        lower, compiler = _compiled(module, target)
    return Answers("ok", lower, *_interpreted(file), compiler)


def _traced(module: Module, target: str) -> str:
    """Pallas while it traces. What typedpallas refuses to launch at all, JAX never sees."""
    try:
        with target_context(target):
            jax.make_jaxpr(module.run)(*module.args)
    except (PlacementError, LaunchError, PatternError):
        return NOT_REACHED
    except Exception as error:
        return words(error)
    return "ok"


def _compiled(module: Module, target: str) -> tuple[str, str]:
    try:
        lowered = lower_for(module.run, *module.args, target=target)
    except Exception as error:
        return words(error), NOT_REACHED
    try:
        compile_lowered(lowered)
    except CompileError as error:
        return "ok", f"{error.kind}: {error.reason}"[:200]
    return "ok", "ok"


def _interpreted(file: Path) -> tuple[str, str]:
    """Both interpret modes; a mode that does not end in time says ``hangs``, one that goes down ``crashes``."""
    log = file.with_suffix(".jsonl")
    log.touch()
    process = _FRESH.Process(target=interpret.main, args=(file, log))
    process.start()
    process.join(_DEADLINE)
    ended = "hangs" if process.is_alive() else "crashes"
    process.kill()
    process.join()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    said = {line["mode"]: line["said"] for line in lines}
    modes = next((line["modes"] for line in lines if "modes" in line), ["hlo", "machine"])
    for mode in modes:
        if mode not in said:
            said[mode] = ended
            break
    return said.get("hlo", NOT_REACHED), said.get("machine", NOT_REACHED)


def words(error: Exception) -> str:
    """An exception's kind and first line."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:200]
