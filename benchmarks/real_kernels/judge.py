"""One call on one chip: the checker, and on demand the compiler."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typedpallas as tp
from benchmarks.real_kernels import calls as calls
from benchmarks.real_kernels import devices, packages
from benchmarks.real_kernels.entry import CALLS, Call
from typedpallas import chips
from typedpallas.compilers.ambient import described_mesh, target_context

TABLES = " (a table's contents)"

_DEADLINE = 300.0
"""Seconds for one compile: the longest of these takes 136 on two cores."""


@dataclass(frozen=True)
class Record:
    """What was said about one call on one chip."""

    call: str
    target: str
    checked: str
    """``clean``, ``open``, ``refuted``, ``untraced`` or ``skipped`` (its package is not here)."""
    rules: tuple[str, ...] = ()
    """Rules that refute, each once."""
    open: dict[str, int] | None = None
    """How often each rule stays open; what hangs on a table's contents apart."""
    kernels: int = 0
    words: str = ""
    """The first refutation, or why the call does not trace."""
    seconds: float = 0.0
    compiler: str = ""
    """``accepted``, or a `CompileError`'s kind, or ``untraced``; empty where it was not asked."""
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def judge(name: str, target: str, folder: str, compiling: bool) -> Record:
    """Check one call, and compile it if ``compiling``. ``folder``: where the packages are, or empty."""
    if folder:
        packages.use(Path(folder))
    call = CALLS[name]
    if not packages.is_there(call.package):
        return Record(name, target, "skipped")
    with described(target, call.mesh or 1):
        begin = time.monotonic()
        try:
            record = _checked(call, target)
        except Exception as error:
            record = Record(name, target, "untraced", words=_words(error))
        spent = time.monotonic() - begin
        said, reason = _asked(call, target) if compiling else ("", "")
    return Record(**(record.as_json() | {"seconds": round(spent, 2), "compiler": said, "reason": reason}))


@contextmanager
def described(target: str, count: int = 1) -> Iterator[None]:
    """Inside, JAX traces as for ``count`` devices of a chip, and whoever asks for devices is told of them."""
    chip = chips.get(target)
    with target_context(chip), devices.described(chip, count):
        yield


def built(call: Call, target: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A call's function and arguments. Call it within `described`."""
    mesh = (described_mesh(chips.get(target), (call.mesh,), ("x",)),) if call.mesh else ()
    fn, args = call.build(*mesh)
    return fn, tuple(args)


def _checked(call: Call, target: str) -> Record:
    fn, args = built(call, target)
    report = tp.check(fn, *args, target=target)
    refuted = [item for item in report.diagnostics if item.verdict == "refuted"]
    undecided = Counter(_question(item) for item in report.diagnostics if item.verdict == "open")
    return Record(
        call.name,
        target,
        "refuted" if refuted else "open" if undecided else "clean",
        rules=tuple(dict.fromkeys(item.rule for item in refuted)),
        open=dict(undecided),
        kernels=len(report.kernels),
        words=f"{refuted[0].file}:{refuted[0].line}: {refuted[0].message}" if refuted else "",
    )


def _question(item: tp.Diagnostic) -> str:
    """The rule that stays open; apart, where only a table's contents would tell, which no checker sees."""
    return f"{item.rule}{TABLES}" if item.found.startswith("indices read from") else item.rule


def _asked(call: Call, target: str) -> tuple[str, str]:
    try:
        fn, args = built(call, target)
        tp.compile(fn, *args, target=target, deadline=_DEADLINE)
    except tp.CompileError as error:
        return error.kind, error.reason
    except Exception as error:
        return "untraced", _words(error)
    return "accepted", ""


def _words(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]
