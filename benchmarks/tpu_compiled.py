"""``python -m benchmarks.tpu_compiled``: what the TPU compiler says of the typed kernels, without a TPU.

For each kernel and chip: the size of the code, the scoped VMEM that each of its kernels uses beside the interval that
the ledger foretold (and its width in parts of the figure), and the compiler's cost analysis, which repeats what it is
told; the same of what JAX ships, at the same shapes. The compiler is asked anew unless a folder for its answers is
given. Nothing here says how fast a kernel is.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import typedpallas as tp
from benchmarks import ledger
from benchmarks.real_kernels.judge import described
from benchmarks.tpu_kernels import CHIPS, KERNELS

_DEADLINE = 120.0


@dataclass(frozen=True)
class Said:
    """Of one function on one chip; bytes. ``refusal``: the first reason why there is nothing else."""

    refusal: str = ""
    code: int | None = None
    vmem: tuple[ledger.Row, ...] = ()
    costs: dict[str, float] | None = None

    @property
    def inside(self) -> bool:
        """Whether each figure of VMEM lies in its interval."""
        return all(row.inside for row in self.vmem)


def ask(name: str, fn: Callable[..., Any], arrays: Any, target: str) -> Said:
    """Have the function compiled for a chip."""
    with described(target):
        try:
            compiled = tp.compile(fn, *arrays, target=target, deadline=_DEADLINE)
        except (tp.CompileError, tp.PlacementError) as error:
            return Said(refusal=_reason(error))
        except Exception as error:  # JAX's own kernels raise what they like for chips that they do not know.
            return Said(refusal=f"{type(error).__name__}: {_first(str(error))}")
        rows = ledger.rows(name, fn, arrays, target)
    return Said(code=compiled.memory.code, vmem=tuple(rows), costs=dict(compiled.costs))


def _reason(error: Exception) -> str:
    if isinstance(error, tp.PlacementError):
        return error.diagnostics[0].message
    return _first(getattr(error, "reason", str(error)))


def _first(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")[:160]


def lines(
    names: list[str],
    targets: list[str],
    counts: dict[str, int],
    widths: list[float],
    keep: Callable[[dict[str, Any]], None],
) -> Iterator[str]:
    """The table, a line at a time.

    ``counts``: figures of our kernels, and how many of them were inside; ``widths``: those of their intervals, in
    parts of the figures. ``keep`` gets all that was said, by sides.
    """
    yield (
        "| kernel | chip | code, KiB | JAX's | VMEM, KiB (foretold, width) | JAX's | bytes accessed, MiB | JAX's "
        "| GFLOP | JAX's |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name in names:
        kernel = KERNELS[name]
        for target in targets:
            arrays = kernel.on(target)
            ours = ask(name, kernel.ours, arrays, target)
            theirs = ask(f"JAX's {name}", kernel.theirs, arrays, target) if kernel.theirs is not None else None
            for whose, said in (("typedpallas", ours), ("jax", theirs)):
                if said is not None:
                    keep({"kernel": name, "target": target, "whose": whose, **asdict(said)})
            counts["figures"] += len(ours.vmem)
            counts["inside"] += sum(row.inside for row in ours.vmem)
            cells = [
                *(_code(ours), _code(theirs), _vmem(ours, beside=True), _vmem(theirs)),
                *(_cost(said, "bytes accessed", 2**20) for said in (ours, theirs)),
                *(_cost(said, "flops", 1e9) for said in (ours, theirs)),
            ]
            widths += [row.width for row in ours.vmem]
            yield f"| {name} | {target} | {' | '.join(cells)} |"


def _code(said: Said | None) -> str:
    if said is None or said.refusal:
        return "" if said is None else f"no: {said.refusal}".replace("|", "/")
    return "" if said.code is None else f"{said.code / 1024:.0f}"


def _vmem(said: Said | None, beside: bool = False) -> str:
    """Of each kernel; ``beside``: with the interval that was foretold."""
    if said is None:
        return ""
    return ", ".join(f"{row.figure / 1024:.0f}{_interval(row) if beside else ''}" for row in said.vmem)


def _interval(row: ledger.Row) -> str:
    outside = "" if row.inside else ", OUTSIDE"
    return f" ({row.low / 1024:.0f} to {row.high / 1024:.0f}, {100 * row.width:.0f}%{outside})"


def _cost(said: Said | None, name: str, unit: float) -> str:
    found = None if said is None or said.costs is None else said.costs.get(name)
    return "" if found is None else f"{found / unit:.1f}"


def main() -> int:
    """Ask and print; 1 if a figure lies outside of its interval."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tpu_compiled", description=__doc__)
    parser.add_argument("--targets", default=",".join(CHIPS), help="chips, comma-separated")
    parser.add_argument("--only", default="", help="kernels whose name has this in it")
    parser.add_argument("--answers", help="a folder that keeps the compiler's answers")
    parser.add_argument(
        "--results", type=Path, help="a file that keeps each answer, all costs with it, as a line of JSON"
    )
    options = parser.parse_args()

    def keep(said: dict[str, Any]) -> None:
        if options.results is not None:
            with options.results.open("a") as out:
                out.write(json.dumps(said) + "\n")

    names = [name for name in KERNELS if options.only in name]
    counts, widths = {"figures": 0, "inside": 0}, list[float]()
    with tempfile.TemporaryDirectory() as fresh:
        os.environ["TYPEDPALLAS_CACHE"] = options.answers or fresh
        for line in lines(names, options.targets.split(","), counts, widths, keep):
            print(line, flush=True)
    middle = f"; half of these are at most {100 * statistics.median(widths):.0f}% wide" if widths else ""
    print(f"\n{counts['inside']} of {counts['figures']} figures of VMEM lie in their intervals{middle}.")
    return int(counts["inside"] != counts["figures"])


if __name__ == "__main__":
    sys.exit(main())
