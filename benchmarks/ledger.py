"""``python -m benchmarks.ledger``: the on-chip memory of kernels as foretold, beside what compilers say.

For each kernel that compiles for a TPU, libtpu writes into the compiled module how much scoped VMEM it used, and
which arrays XLA keeps in VMEM around it. The ledger's interval must hold the figure, with that known and without; how
wide it is, in parts of the figure, is the other thing to know. Of scalar memory libtpu says nothing unless it
overflows: there the width is in parts of the upper end. Mosaic GPU's launch says its shared memory to the byte.
Kernels are those of other people (``benchmarks.real_kernels``) and generated ones (``benchmarks.agreement``).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

import typedpallas as tp
from benchmarks import ledger_figures
from benchmarks.agreement.families import FAMILIES
from benchmarks.agreement.judge import draw
from benchmarks.ledger_figures import Figure, Shapes
from benchmarks.real_kernels import calls as calls
from benchmarks.real_kernels import packages
from benchmarks.real_kernels.entry import CALLS
from benchmarks.real_kernels.judge import built, described
from typedpallas import chips
from typedpallas.chips import GpuTarget, TpuTarget
from typedpallas.tracing import jaxapi
from typedpallas.tracing.ledgers import shared as ledger_shared
from typedpallas.tracing.ledgers import smem as ledger_smem
from typedpallas.tracing.ledgers import vmem as ledger_vmem
from typedpallas.tracing.walk import KernelCall, kernels

_DEADLINE = 90.0
"""Seconds for one compile; the few that take longer are left out."""
_CHIPS = ("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-7x", "h100", "b200")

type Space = Literal["VMEM", "VMEM, as XLA placed the arrays", "SMEM", "shared memory"]


@dataclass(frozen=True)
class Row:
    """One kernel on one chip. Bytes."""

    what: str
    kernel: str
    target: str
    low: int
    high: int
    figure: int
    """Of scalar memory the upper end: nobody says."""
    space: Space = "VMEM"

    @property
    def inside(self) -> bool:
        """Whether the figure lies in the interval."""
        return self.low <= self.figure <= self.high

    @property
    def width(self) -> float:
        """The interval's, in parts of the figure; of its upper end where the kernel used nothing."""
        return (self.high - self.low) / max(self.figure or self.high, 1)


def rows(what: str, fn: Any, args: Any, target: str) -> list[Row]:
    """The kernels of one program, each beside the compiler's figure for all of VMEM as it may be.

    None of those that cannot be told apart.
    """
    return [row for row in every_row(what, fn, args, target) if row.space == "VMEM"]


def every_row(what: str, fn: Any, args: Any, target: str) -> list[Row]:
    """The same for every space of the chip."""
    chip = chips.get(target)
    try:
        found = jaxapi.trace(fn, tuple(args))
        if isinstance(chip, GpuTarget):
            return _shared(what, list(kernels(found, "mosaic_gpu")), fn, args, chip)
        assert isinstance(chip, TpuTarget)
        module = tp.compile(fn, *args, target=target, deadline=_DEADLINE).module
    except Exception as error:
        print(f"{what} {target}: {type(error).__name__} {str(error).splitlines()[:1]}"[:160], file=sys.stderr)
        return []
    return _tpu(what, list(kernels(found, "mosaic_tpu")), module, chip)


def _tpu(what: str, found: list[KernelCall], module: str, chip: TpuTarget) -> list[Row]:
    said: dict[Shapes, list[Figure]] = defaultdict(list)
    for figure in ledger_figures.of_module(module):
        said[figure.results].append(figure)
    foretold: dict[Shapes, list[KernelCall]] = defaultdict(list)
    for kernel in found:
        known = kernel.backend == "mosaic_tpu" and kernel.understood and bool(kernel.grid)
        if known and ledger_vmem.use(kernel, chip) is not None:
            foretold[tuple(var.aval.shape for var in kernel.eqn.outvars)].append(kernel)
    made = [row for some in foretold.values() for kernel in some for row in _scalars(what, kernel, chip)]
    for shapes, some in foretold.items():
        if len(said[shapes]) == len(some):
            made += _beside(what, some, said[shapes], chip)
        else:
            print(f"{what} {chip.name}: {len(some)} kernels beside {len(said[shapes])} calls", file=sys.stderr)
    return made


def _beside(what: str, some: list[KernelCall], said: list[Figure], chip: TpuTarget) -> Iterator[Row]:
    """Kernels of equal results, in the order of their sizes, beside the figures in theirs."""
    uses = [(use, kernel) for kernel in some if (use := ledger_vmem.use(kernel, chip)) is not None]
    uses.sort(key=lambda pair: (pair[0].low, pair[0].high))
    for (use, kernel), figure in zip(uses, sorted(said, key=lambda figure: figure.size), strict=True):
        yield Row(what, kernel.name, chip.name, use.low, use.high, figure.size)
        placed = ledger_vmem.use(kernel, chip, _kept(kernel, figure))
        if placed is not None:
            yield Row(
                what, kernel.name, chip.name, placed.low, placed.high, figure.size, "VMEM, as XLA placed the arrays"
            )


def _kept(kernel: KernelCall, figure: Figure) -> frozenset[int]:
    """The kernel's operands whose arrays XLA keeps in VMEM. A call may have sizes of its grid before its operands."""
    given = [place for place, operand in enumerate(kernel.operands) if operand.role in ("prefetch", "in")]
    made = [place for place, operand in enumerate(kernel.operands) if operand.role == "out"]
    own = figure.kept_operands[len(figure.kept_operands) - len(given) :]
    pairs = [*zip(given, own, strict=False), *zip(made, figure.kept_results, strict=False)]
    return frozenset(place for place, kept in pairs if kept)


def _scalars(what: str, kernel: KernelCall, chip: TpuTarget) -> Iterator[Row]:
    use = ledger_smem.use(kernel, chip)
    if use is not None:
        yield Row(what, kernel.name, chip.name, use.low, use.high, use.high, "SMEM")


def _shared(what: str, found: list[KernelCall], fn: Any, args: Any, chip: GpuTarget) -> list[Row]:
    own = [kernel for kernel in found if kernel.backend == "mosaic_gpu"]
    said = ledger_figures.shared_bytes(fn, args, chip.name) if own else []
    pairs = [(use, kernel) for kernel in own if (use := ledger_shared.use(kernel, chip)) is not None]
    if len(pairs) != len(said):
        print(f"{what} {chip.name}: {len(pairs)} kernels beside {len(said)} launches", file=sys.stderr)
        return []
    pairs.sort(key=lambda pair: pair[0].high)
    return [
        Row(what, kernel.name, chip.name, use.low, use.high, size, "shared memory")
        for (use, kernel), size in zip(pairs, sorted(said), strict=True)
    ]


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
    """Generated kernels, dealt out over the chips of their machines."""
    for machine in ("tpu", "gpu"):
        chosen = [name for name in targets if chips.get(name).machine == machine]
        families = [name for name, family in FAMILIES.items() if family.machine == machine and _is_heard(name)]
        for number in range(count if chosen else 0):
            family = families[number % len(families)]
            target = chosen[number // len(families) % len(chosen)]
            case = draw(family, seed + number).on(target).build()
            yield f"{family} {seed + number}", case.run, case.avals, target


def _is_heard(family: str) -> bool:
    """Whether the compiler says what a family's kernels use: Triton does not."""
    return not family.startswith("gpu-")


def table(found: Iterable[Row]) -> str:
    """Counts and widths by space, where the kernels are from and chip, and each figure that is outside."""
    lines = [
        "| space | kernels | chip | | inside | width: median | 95th percentile |",
        "|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in found:
        groups[row.space, "other people's" if "/" in row.what else "generated", row.target].append(row)
    for (space, whose, target), some in sorted(groups.items()):
        middle, most = np.quantile([row.width for row in some], (0.5, 0.95))
        inside = sum(row.inside for row in some)
        where = f"{space} | {whose} | {target} | {len(some)} | {inside if space != 'SMEM' else ''}"
        lines.append(f"| {where} | {100 * middle:.1f}% | {100 * most:.0f}% |")
    for row in (row for some in groups.values() for row in some if not row.inside):
        lines.append(f"outside: {row.what} `{row.kernel}` {row.target}: {row.low} to {row.high}, {row.figure} used")
    return "\n".join(lines)


def main() -> int:
    """Measure and print; 1 if a figure lies outside of its interval."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger", description=__doc__)
    parser.add_argument("--packages", type=Path, help="the folder that benchmarks/real_kernels/setup.sh made")
    parser.add_argument("--targets", default=",".join(_CHIPS))
    parser.add_argument("--only", default="", help="calls whose name has this in it; `-` for none")
    parser.add_argument("--generated", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, help="a file that keeps each row as a line of JSON")
    options = parser.parse_args()
    targets = options.targets.split(",")
    found: list[Row] = []
    work = (real(options.packages, targets, options.only), generated(options.generated, options.seed, targets))
    for what, fn, args, target in itertools.chain(*work):
        with described(target):
            fresh = every_row(what, fn, args, target)
        found += fresh
        if options.results is not None and fresh:
            with options.results.open("a") as out:
                out.writelines(json.dumps(asdict(row)) + "\n" for row in fresh)
    print(table(found))
    return int(any(not row.inside for row in found))


if __name__ == "__main__":
    sys.exit(main())
