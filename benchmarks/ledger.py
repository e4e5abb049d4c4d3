"""``python -m benchmarks.ledger``: what a kernel needs of VMEM, as foretold, beside what the compiler gave it.

For each kernel that compiles for a TPU, libtpu writes into the compiled module how much scoped VMEM it used. The
ledger's interval must hold that figure; how narrow it is, in parts of the figure, is the other thing to know.
Kernels are those of other people (``benchmarks.real_kernels``) and generated ones (``benchmarks.agreement``).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

import typedpallas as tp
from benchmarks.agreement.families import FAMILIES
from benchmarks.agreement.judge import draw
from benchmarks.real_kernels import calls as calls
from benchmarks.real_kernels import packages
from benchmarks.real_kernels.entry import CALLS
from benchmarks.real_kernels.judge import built, described
from typedpallas import chips
from typedpallas.chips import TpuTarget
from typedpallas.tracing import jaxapi
from typedpallas.tracing.ledgers import vmem as ledger_vmem
from typedpallas.tracing.walk import kernels

_CALL = 'custom_call_target="tpu_custom_call"'
_RESULT = re.compile(r"\w+\[([\d,]*)\]")
_FIGURE = re.compile(r'"used_scoped_memory_configs":\[\{"memory_space":"1","offset":"0","size":"(?P<size>\d+)"')
_DEADLINE = 90.0
"""Seconds for one compile; the few that take longer are left out."""
_TPUS = ("tpu-v5e", "tpu-7x")


@dataclass(frozen=True)
class Row:
    """One kernel on one chip. Bytes."""

    what: str
    kernel: str
    target: str
    low: int
    high: int
    figure: int

    @property
    def inside(self) -> bool:
        """Whether the figure lies in the interval."""
        return self.low <= self.figure <= self.high

    @property
    def width(self) -> float:
        """The interval's, in parts of the figure."""
        return (self.high - self.low) / max(self.figure, 1)


type Shapes = tuple[tuple[int, ...], ...]


def figures(module: str) -> Iterator[tuple[Shapes, int]]:
    """The shapes of each kernel's results in a compiled module, and the bytes of VMEM that it used."""
    parts = module.split(_CALL)
    for before, after in itertools.pairwise(parts):
        line = before[before.rfind(" = ") :] if before.rfind("\n") < before.rfind(" = ") else ""
        results = line[: line.find("custom-call(")]
        figure = _FIGURE.search(after)
        shapes = tuple(tuple(int(d) for d in dims.split(",") if d) for dims in _RESULT.findall(results))
        yield shapes, int(figure["size"]) if figure else 0


def rows(what: str, fn: Any, args: Any, target: str) -> list[Row]:
    """The kernels of one program, each beside the compiler's figure; none of those that cannot be told apart."""
    chip = chips.get(target)
    assert isinstance(chip, TpuTarget)
    try:
        foretelling = list(kernels(jaxapi.trace(fn, tuple(args)), "mosaic_tpu"))
        compiled = tp.compile(fn, *args, target=target, deadline=_DEADLINE)
    except Exception as error:
        print(f"{what} {target}: {type(error).__name__} {str(error).splitlines()[:1]}"[:160], file=sys.stderr)
        return []
    said: dict[Shapes, list[int]] = defaultdict(list)
    for shapes, size in figures(compiled.module):
        said[shapes].append(size)
    foretold: dict[Shapes, list[tuple[int, int, str]]] = defaultdict(list)
    for kernel in foretelling:
        use = ledger_vmem.use(kernel, chip) if kernel.backend == "mosaic_tpu" and kernel.understood else None
        if use is not None and kernel.grid:
            foretold[tuple(var.aval.shape for var in kernel.eqn.outvars)].append((use.low, use.high, kernel.name))
    found = []
    for shapes, intervals in foretold.items():
        if len(said[shapes]) == len(intervals):
            pairs = zip(sorted(intervals), sorted(said[shapes]), strict=True)
            found += [Row(what, name, target, low, high, size) for (low, high, name), size in pairs]
        else:
            print(f"{what} {target}: {len(intervals)} kernels beside {len(said[shapes])} calls", file=sys.stderr)
    return found


def real(folder: Path | None, targets: Iterable[str], only: str) -> Iterator[tuple[str, Any, Any, str]]:
    """Other people's calls on these chips."""
    if folder is not None:
        packages.use(folder.resolve())
    for call in CALLS.values():
        for target in targets:
            if target in call.targets and only in call.name and packages.is_there(call.package):
                with described(target, call.mesh or 1):
                    try:
                        fn, args = built(call, target)
                    except Exception as error:
                        print(f"{call.name} {target}: {str(error).splitlines()[:1]}", file=sys.stderr)
                        continue
                    yield call.name, fn, args, target


def generated(count: int, seed: int, targets: Iterable[str]) -> Iterator[tuple[str, Any, Any, str]]:
    """Generated kernels for TPUs, dealt out over the chips."""
    families = [name for name, family in FAMILIES.items() if family.machine == "tpu"]
    chosen = list(targets)
    for number in range(count):
        family = families[number % len(families)]
        case = draw(family, seed + number).build()
        yield f"{family} {seed + number}", case.run, case.avals, chosen[number // len(families) % len(chosen)]


def table(found: Iterable[Row]) -> str:
    """Counts and widths by where the kernels are from, and each figure that is outside."""
    lines = ["| | kernels | figure inside | width: median | 95th percentile |", "|---|---|---|---|---|"]
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in found:
        groups["other people's" if "/" in row.what else "generated"].append(row)
    for name, some in groups.items():
        widths = [row.width for row in some]
        inside = sum(row.inside for row in some)
        middle, most = np.quantile(widths, 0.5), np.quantile(widths, 0.95)
        lines.append(f"| {name} | {len(some)} | {inside} | {100 * middle:.1f}% | {100 * most:.0f}% |")
    for row in (row for some in groups.values() for row in some if not row.inside):
        lines.append(f"outside: {row.what} `{row.kernel}` {row.target}: {row.low} to {row.high}, {row.figure} used")
    return "\n".join(lines)


def main() -> int:
    """Measure and print; 1 if a figure lies outside of its interval."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger", description=__doc__)
    parser.add_argument("--packages", type=Path, help="the folder that benchmarks/real_kernels/setup.sh made")
    parser.add_argument("--targets", default=",".join(_TPUS))
    parser.add_argument("--only", default="", help="calls whose name has this in it; `-` for none")
    parser.add_argument("--generated", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, help="a file that keeps each row as a line of JSON")
    options = parser.parse_args()
    targets = options.targets.split(",")
    found: list[Row] = []
    work = [*real(options.packages, targets, options.only), *generated(options.generated, options.seed, targets)]
    for what, fn, args, target in work:
        with described(target):
            fresh = rows(what, fn, args, target)
        found += fresh
        if options.results is not None and fresh:
            with options.results.open("a") as out:
                out.writelines(json.dumps(asdict(row)) + "\n" for row in fresh)
    print(table(found))
    return int(any(not row.inside for row in found))


if __name__ == "__main__":
    sys.exit(main())
