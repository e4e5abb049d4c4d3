"""``python -m benchmarks.levels --count 500``: the two levels of the rule book on the same annotated kernels.

Two things must never happen: mypy proves what the trace refutes, or mypy refutes a kernel that the trace takes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import typedpallas as tp
from benchmarks.agreement.families import FAMILIES
from benchmarks.agreement.judge import draw
from benchmarks.levels import dims
from benchmarks.levels.checking import checked
from benchmarks.levels.emit import annotated
from benchmarks.levels.judge import Subject, Verdict, traced, verdict

_TARGETS = {"tpu": "tpu-v5e", "gpu": "h100"}
_DIMS = "dims"
"""The family of kernels that are typed from the start; the others are those of `benchmarks.agreement`, annotated."""


def _subjects(families: Sequence[str], seeds: range, machine: str) -> Iterator[Subject]:
    """Each kernel in both styles; one that JAX does not trace has no refs to annotate, and is left out."""
    for family in families:
        if family == _DIMS or FAMILIES[family].machine != machine:
            continue
        for seed in seeds:
            case = draw(family, seed)
            built = case.build()
            try:
                report = tp.check(built.run, *built.avals, target=_TARGETS[machine])
            except (TypeError, ValueError, NotImplementedError):
                continue
            for style in ("literal", "generic"):
                source = annotated(case.source(), built.avals, report.kernels, style) if report.kernels else None
                if source is not None:
                    yield Subject(f"{family.replace('-', '_')}_{seed}_{style}", style, source)


def _verdicts(subjects: Sequence[Subject], machine: str, folder: Path, chunk: int) -> Iterator[Verdict]:
    target = _TARGETS[machine]
    for first in range(0, len(subjects), chunk):
        for subject in checked(subjects[first : first + chunk], target, folder):
            yield verdict(subject, traced(subject.source, subject.name, target))
        done = min(first + chunk, len(subjects))
        print(f"\r{machine}: {done}/{len(subjects)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def _table(found: Sequence[Verdict]) -> str:
    kinds = Counter(("refuted" if v.refuted_at else "passed", "refuted" if v.traced else "passed") for v in found)
    lines = [f"{'mypy':<10}{'trace':<10}{'modules':>8}"]
    lines += [f"{one:<10}{two:<10}{count:>8}" for (one, two), count in sorted(kinds.items())]
    rules = Counter(rule for v in found for rule in v.refuted_at)
    lines.append(f"{sum(v.proved for v in found)} judgements of mypy's were proofs")
    slices = Counter(said for v in found for said in v.slices)
    lines.append("slices: " + ", ".join(f"{slices[said]} {said}" for said in ("proved", "refuted", "open")))
    lines += [f"  refuted by mypy: {rule} {count}" for rule, count in rules.most_common()]
    only = Counter(rule for v in found for rule in v.traced if rule not in v.refuted_at)
    lines += [f"  by the trace alone: {rule} {count}" for rule, count in only.most_common()]
    wrong = [(v.name, text) for v in found for text in v.contradictions]
    lines.append(f"contradictions: {len(wrong)}")
    lines += [f"  {name}: {text}" for name, text in wrong]
    return "\n".join(lines)


def main() -> int:
    """Run and print; 1 if the levels contradict each other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.levels", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="how many kernels, over all families")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", default="", help=f"of {', '.join([*FAMILIES, _DIMS])}")
    parser.add_argument("--chunk", type=int, default=60, help="modules in one run of mypy")
    parser.add_argument("--keep", type=Path, help="a folder for the modules; a temporary one without it")
    options = parser.parse_args()
    families = options.families.split(",") if options.families else [*FAMILIES, _DIMS]
    seeds = range(options.seed, options.seed - (-options.count // len(families)))
    found: list[Verdict] = []
    with tempfile.TemporaryDirectory() as temporary:
        for machine in _TARGETS:
            folder = (options.keep or Path(temporary)) / machine
            shutil.rmtree(folder, ignore_errors=True)  # mypy is silent about modules that it knows already
            subjects = list(_subjects(families, seeds, machine))
            if machine == "tpu" and _DIMS in families:
                subjects += dims.subjects(seeds)
            found += _verdicts(subjects, machine, folder, options.chunk)
    print(_table(found))
    return int(any(v.contradictions for v in found))


if __name__ == "__main__":
    raise SystemExit(main())
