"""What typedpallas costs, as ratios measured in one run: mypy's plugin, the trace check, the typed launch.

``python -m benchmarks.overhead`` prints the tables of docs/benchmarks.md.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import functools
import platform
import statistics
from collections.abc import Callable, Sequence
from importlib import metadata

from benchmarks import overhead_kernels as kernels
from benchmarks import overhead_mypy, overhead_real
from benchmarks.overhead_mypy import Row, paired, spent

SIZES = (1000, 7000)
DAEMON_SIZE = 300


def _compared(what: str, plain: Callable[[], object], typed: Callable[[], object], rounds: int) -> Row:
    """Two calls in this process, each made once before."""
    plain(), typed()
    return paired(what, functools.partial(spent, plain), functools.partial(spent, typed), rounds)


def check_rows(rounds: int) -> list[Row]:
    """`tp.check` against tracing and lowering the same function for the same chip."""
    return [_compared(f"{case.name}, {case.target}", case.lower, case.check, rounds) for case in kernels.CASES]


def launch_rows(rounds: int) -> list[Row]:
    """A typed launch against the same call written by hand: the time to trace each, with JAX's caches empty."""
    found = []
    for case in kernels.CASES:
        name = f"{case.name}, {case.target}"
        found.append(_compared(f"{name}, traced again", case.trace_by_hand, case.trace, rounds))
        found.append(_compared(f"{name}, traced first, with the check", case.trace_by_hand, case.trace_first, rounds))
    return found


def real(rounds: int) -> str:
    """`tp.check` on grids of all lengths and on the kernels that JAX ships."""
    lines = ["| | trace | trace and lower | `tp.check` | judging adds |", "|---|---|---|---|---|"]
    for cost in (*overhead_real.grids(rounds), *overhead_real.loops(rounds)):
        times = " | ".join(_time(value) for value in (cost.trace, cost.lower, cost.check))
        lines.append(f"| {cost.name} | {times} | {100 * cost.added:.0f}% |")
    costs = overhead_real.real(rounds=rounds)
    lines += ["", "| kernels that JAX ships | calls | trace and lower | judging adds |", "|---|---|---|---|"]
    for name, own in overhead_real.by_class(costs):
        slow, added = statistics.median(cost.lower for cost in own), sorted(100 * cost.added for cost in own)
        spread = f"{added[0]:.0f}%" if len(own) == 1 else f"{added[0]:.0f} to {added[-1]:.0f}%"
        lines.append(f"| {name} | {len(own)} | {_time(slow)} | {spread} |")
    return "\n".join([*lines, "", overhead_real.summary(costs)])


def table(head: Sequence[str], rows: Sequence[Row]) -> str:
    """A table in Markdown: CPU times, their ratio, and the ratio of wall times."""
    lines = [f"| {' | '.join(head)} | ratio | ratio (wall) |", f"|{'---|' * (len(head) + 2)}"]
    for row in rows:
        ratio, wall = row.typed.cpu / row.plain.cpu, row.typed.wall / row.plain.wall
        lines.append(f"| {row.what} | {_time(row.plain.cpu)} | {_time(row.typed.cpu)} | {ratio:.2f} | {wall:.2f} |")
    return "\n".join(lines)


def _time(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{1000 * value:.0f} ms" if value >= 0.01 else f"{1000 * value:.1f} ms"


def machine() -> str:
    """Where and with what the figures were taken."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("jax", "mypy"))
    load = f", load {os.getloadavg()[0]:.0f}" if hasattr(os, "getloadavg") else ""
    return f"{os.cpu_count()} cores ({platform.machine()}{load}), Python {platform.python_version()}, {versions}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="repetitions; medians are printed (default: 9)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="lines for mypy (default: 1000 7000)")
    parser.add_argument("--only", choices=("real",), help="real: only what the check costs on JAX's own kernels")
    options = parser.parse_args(arguments)
    rounds: int = options.rounds
    if options.only == "real":
        print(f"On {machine()}.\n\n{real(min(rounds, 3))}")
        return
    print(f"On {machine()}. Medians of {rounds} rounds; times are CPU time.\n")
    head = ("mypy", "without the plugin", "with it")
    for i, size in enumerate(options.sizes):
        made, rows = overhead_mypy.rows(size, rounds, cold=i == 0)
        print(f"{table(head, rows)}\n\n{made.kernels} kernels.\n", flush=True)
    print(table(head, overhead_mypy.daemon_rows(DAEMON_SIZE, rounds)))
    print(f"\n{table(('the trace check', 'trace and lower', '`tp.check`'), check_rows(rounds))}")
    print(f"\n{real(min(rounds, 3))}")
    print(f"\n{table(('the typed launch', 'trace by hand', 'trace typed'), launch_rows(rounds))}")


if __name__ == "__main__":
    main()
