"""What typedpallas costs, as ratios measured in one run: mypy's plugin, the trace check, the typed launch.

``python -m benchmarks.overhead`` prints the tables of docs/benchmarks.md.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import functools
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from benchmarks import overhead_kernels as kernels
from typedpallas.cli import mypying

type Row = tuple[str, float, float]
"""What, CPU seconds without typedpallas, CPU seconds with it."""

PLAIN = "[mypy]\ncheck_untyped_defs = True\n"


def seconds(work: Callable[[], object]) -> float:
    """The CPU time of one call, of processes that it starts too; other work on the machine disturbs it little."""
    start = _used()
    work()
    return _used() - start


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def paired(plain: Callable[[], object], typed: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The medians of both, measured in turn so that a busy machine slows both."""
    plain(), typed()
    times = [(seconds(plain), seconds(typed)) for _ in range(rounds)]
    return statistics.median(t[0] for t in times), statistics.median(t[1] for t in times)


def mypy_rows(rounds: int) -> tuple[list[Row], int, int]:
    """mypy without and with the plugin; also the lines and the kernels that it reads."""
    modules = kernels.modules()
    lines = sum(text.count("\n") for text in modules.values())
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name, "plain"), Path(name, "typed")]
        for folder, config in zip(folders, (PLAIN, mypying.CONFIG), strict=True):
            folder.mkdir()
            (folder / "mypy.ini").write_text(config)
            for file, text in modules.items():
                (folder / file).write_text(text)
        rows = [_mypy("mypy, cold cache", folders, 2, _forget)]
        rows.append(_mypy("mypy, warm, nothing touched", folders, rounds, lambda folder: None))
        rows.append(_mypy("mypy, warm, one module touched", folders, rounds, lambda folder: _touch(folder, 1)))
        rows.append(_mypy("mypy, warm, every module touched", folders, rounds, lambda folder: _touch(folder, None)))
    return rows, lines, sum(text.count("tp.launch(") for text in modules.values())


def _mypy(what: str, folders: Sequence[Path], rounds: int, touch: Callable[[Path], None]) -> Row:
    """mypy in both folders in turn, each after ``touch``."""
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for folder, found in zip(folders, times, strict=True):
            touch(folder)
            found.append(seconds(functools.partial(run_mypy, folder)))
    return what, statistics.median(times[0]), statistics.median(times[1])


def _forget(folder: Path) -> None:
    """Remove mypy's cache."""
    shutil.rmtree(folder / ".mypy_cache", ignore_errors=True)


def _touch(folder: Path, count: int | None) -> None:
    """Append a line to modules, so that mypy reads them again."""
    for file in sorted(folder.glob("*.py"))[:count]:
        file.write_text(file.read_text() + f"_touched_{time.monotonic_ns()} = 0\n")


def run_mypy(folder: Path) -> None:
    """mypy on every module of the folder, in a process of its own as people run it.

    Raises:
        RuntimeError: it found something; the kernels are meant to be clean.
    """
    files = sorted(file.name for file in folder.glob("*.py"))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", *files],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"mypy on the generated kernels:\n{done.stdout}{done.stderr}")


def check_rows(rounds: int) -> list[Row]:
    """`tp.check` against tracing and lowering the same function for the same chip."""
    rows = []
    for case in kernels.CASES:
        plain, checked = paired(case.lower, case.check, rounds)
        rows.append((f"{case.name}, {case.target}", plain, checked))
    return rows


def launch_rows(rounds: int) -> list[Row]:
    """A typed launch against the same call written by hand: the time to trace each."""
    rows = []
    for case in kernels.CASES:
        plain, typed = paired(case.trace_by_hand, case.trace, rounds)
        rows.append((f"{case.name}, {case.target}", plain, typed))
    return rows


def table(head: Sequence[str], rows: Sequence[Row]) -> str:
    """A table in Markdown; seconds and their ratio."""
    lines = [f"| {' | '.join(head)} | ratio |", f"|{'---|' * (len(head) + 1)}"]
    for what, plain, typed in rows:
        lines.append(f"| {what} | {_time(plain)} | {_time(typed)} | {typed / plain:.2f} |")
    return "\n".join(lines)


def _time(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{1000 * value:.0f} ms" if value >= 0.01 else f"{1000 * value:.1f} ms"


def machine() -> str:
    """Where and with what the figures were taken."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("jax", "mypy"))
    return f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, {versions}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="repetitions; medians are printed (default: 9)")
    rounds = parser.parse_args(arguments).rounds
    print(f"On {machine()}.\n")
    rows, lines, count = mypy_rows(max(3, rounds // 3))
    print(f"mypy on {lines} lines, {count} kernels:\n")
    print(table(("", "without the plugin", "with it"), rows))
    print("\nThe trace check:\n")
    print(table(("", "trace and lower", "`tp.check`"), check_rows(rounds)))
    print("\nThe typed launch:\n")
    print(table(("", "trace by hand", "trace typed"), launch_rows(rounds)))


if __name__ == "__main__":
    main()
