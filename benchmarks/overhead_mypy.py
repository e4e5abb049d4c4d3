"""What the plugin costs mypy: runs and daemon round trips without and with it, in turn, on generated kernels."""

import functools
import itertools
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import overhead_kernels as kernels
from typedpallas.cli import mypying

PLAIN = "[mypy]\ncheck_untyped_defs = True\n"
_NEW = """

def fresh_{i}[Rows{i}: Multiple[L[8]], N: Dim](
    x: In[VMEM, f32, Rows{i}, N], out: Out[VMEM, f32, Rows{i}, N]
) -> None:
    out[...] = jnp.exp(x[...]) + {i}.0
"""
"""A kernel with a dim of a new name: nothing that JAX said before answers for it."""


@dataclass(frozen=True)
class Spent:
    """What one call took, in seconds; ``cpu`` counts the processes that it starts too."""

    cpu: float
    wall: float


@dataclass(frozen=True)
class Row:
    """Medians without and with typedpallas."""

    what: str
    plain: Spent
    typed: Spent


def spent(work: Callable[[], object], more: Callable[[], float] = lambda: 0.0) -> Spent:
    """What one call took; ``more`` is CPU time of a process that is no child of this one."""
    start, used = time.perf_counter(), _used() + more()
    work()
    return Spent(_used() + more() - used, time.perf_counter() - start)


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def paired(what: str, plain: Callable[[], Spent], typed: Callable[[], Spent], rounds: int) -> Row:
    """Both measured in turn, so that a busy machine slows both; progress goes to standard error."""
    found: list[tuple[Spent, Spent]] = []
    for done in range(rounds):
        print(f"\r{what}: {done + 1}/{rounds}".ljust(100), end="", file=sys.stderr, flush=True)
        found.append((plain(), typed()))
    print("\r".ljust(102), end="\r", file=sys.stderr, flush=True)
    return Row(what, _median([one for one, _ in found]), _median([other for _, other in found]))


def _median(many: Sequence[Spent]) -> Spent:
    return Spent(statistics.median(one.cpu for one in many), statistics.median(one.wall for one in many))


@dataclass(frozen=True)
class Project:
    """The same generated modules twice: ``plain`` without the plugin, ``typed`` with it."""

    plain: Path
    typed: Path
    lines: int
    kernels: int

    def row(self, what: str, before: Callable[[Path], object], rounds: int) -> Row:
        """One mypy run on each side, after ``before``."""

        def side(folder: Path) -> Spent:
            before(folder)
            return spent(functools.partial(run_mypy, folder))

        return paired(what, functools.partial(side, self.plain), functools.partial(side, self.typed), rounds)


@contextmanager
def project(modules: dict[str, str]) -> Iterator[Project]:
    """The modules in two temporary folders."""
    with tempfile.TemporaryDirectory() as name:
        folders = Path(name, "plain"), Path(name, "typed")
        for folder, config in zip(folders, (PLAIN, mypying.CONFIG), strict=True):
            folder.mkdir()
            (folder / "mypy.ini").write_text(config)
            for file, text in modules.items():
                (folder / file).write_text(text)
        lines = sum(text.count("\n") for text in modules.values())
        yield Project(*folders, lines, sum(text.count("tp.launch(") for text in modules.values()))


def rows(size: int, rounds: int, *, cold: bool) -> tuple[Project, list[Row]]:
    """mypy on about ``size`` lines."""
    with project(kernels.modules(size)) as made:
        label = f"{made.lines} lines, "
        first = made.row(label + "cold cache", _forget, 3 if cold else 1)
        found = [first] if cold else []
        found.append(made.row(label + "nothing touched", lambda folder: None, rounds))
        found.append(made.row(label + "one module touched", functools.partial(touch, count=1), rounds))
        found.append(made.row(label + "every module touched", touch, rounds))
        found.append(made.row(label + "one kernel added", _add, rounds))
        return made, found


def _forget(folder: Path) -> None:
    """Remove mypy's cache, and with it what JAX said."""
    shutil.rmtree(folder / ".mypy_cache", ignore_errors=True)


def touch(folder: Path, count: int | None = None) -> None:
    """Append a line to modules, so that mypy reads them again."""
    for file in sorted(folder.glob("*.py"))[:count]:
        file.write_text(file.read_text() + f"_touched_{time.monotonic_ns()} = 0\n")


_NUMBERS = itertools.count(1_000_000)


def _add(folder: Path) -> None:
    """Append a kernel to one module."""
    file = min(folder.glob("*.py"))
    file.write_text(file.read_text() + _NEW.format(i=next(_NUMBERS)))


@functools.cache
def _environment() -> dict[str, str]:
    """Bytecode is kept between runs, as it is for what is installed."""
    folder = Path(tempfile.gettempdir(), f"typedpallas-bytecode-{os.getuid()}")
    found = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder), "JAX_PLATFORMS": "cpu"}
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


def run_mypy(folder: Path) -> None:
    """mypy on every module of the folder, in a process of its own as people run it.

    Raises:
        RuntimeError: it found something; the kernels are meant to be clean.
    """
    files = sorted(file.name for file in folder.glob("*.py"))
    _clean(folder, ["mypy", "--config-file", "mypy.ini", *files])


def _clean(folder: Path, command: Sequence[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
    )
    if done.returncode != 0:
        raise RuntimeError(f"mypy on the generated kernels:\n{done.stdout}{done.stderr}")


def daemon_rows(size: int, rounds: int) -> list[Row]:
    """A round trip with mypy's daemon: one file of about ``size`` lines was saved."""
    with project({"kernels.py": kernels.module(size)}) as made:
        sides = [_Daemon(made.plain), _Daemon(made.typed)]
        try:
            for side in sides:
                side.trip()
            what = f"dmypy, {made.lines} lines, saved"
            return [paired(what, sides[0].trip, sides[1].trip, rounds)]
        finally:
            for side in sides:
                side.stop()


class _Daemon:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started = False

    def trip(self) -> Spent:
        """Save the file and check it; the first one starts the daemon."""
        touch(self.folder)
        command = ["mypy.dmypy", "--status-file", "status.json"]
        command += (
            ["check", "kernels.py"] if self.started else ["run", "--", "--config-file", "mypy.ini", "kernels.py"]
        )
        found = spent(functools.partial(_clean, self.folder, command), self._used)
        self.started = True
        return found

    def _used(self) -> float:
        """CPU time of the daemon so far; 0 where the system does not tell (then only the wall time counts)."""
        try:
            status: dict[str, Any] = json.loads((self.folder / "status.json").read_text())
            return int(Path(f"/proc/{status['pid']}/schedstat").read_text().split()[0]) / 1e9
        except (OSError, ValueError, KeyError):
            return 0.0

    def stop(self) -> None:
        """End the daemon."""
        if self.started:
            _clean(self.folder, ["mypy.dmypy", "--status-file", "status.json", "stop"])
