"""``python -m benchmarks.agreement --count 200``: generated kernels, checker against compiler and oracle.

Two numbers decide: kernels refused though the compiler takes them and they are right, and kernels passed though
the compiler refuses them or they are wrong. Results are kept in a file, one line each; a second run goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.agreement.families import FAMILIES
from benchmarks.agreement.judge import Record
from benchmarks.agreement.runner import run
from typedpallas import chips


def _targets(names: str, machine: str) -> list[str]:
    chosen = names.split(",") if names else list(chips.targets())
    return [name for name in chosen if chips.get(name).machine == machine]


def _wanted(options: argparse.Namespace) -> Iterator[tuple[str, int, str]]:
    families = options.families.split(",") if options.families else list(FAMILIES)
    for i in range(options.count):
        family = families[i % len(families)]
        seed = options.seed + i // len(families)
        chosen = _targets(options.targets, FAMILIES[family].machine)
        for j in range(min(options.chips, len(chosen))):
            yield family, seed, chosen[(seed + j) % len(chosen)]


def _load(path: Path) -> list[Record]:
    if not path.exists():
        return []
    return [Record(**json.loads(line)) for line in path.read_text().splitlines() if line.strip()]


def table(records: list[Record]) -> str:
    """Counts by family, then each disagreement in one line."""
    kinds = ["agree", "open", "false-alarm", "miss", "oracle-wrong", "no-answer"]
    lines = [f"{'family':<16}" + "".join(f"{kind:>14}" for kind in kinds)]
    for family in sorted({record.family for record in records}):
        counts = Counter(record.kind for record in records if record.family == family)
        lines.append(f"{family:<16}" + "".join(f"{counts[kind]:>14}" for kind in kinds))  # type: ignore[index]
    total = Counter(record.kind for record in records)
    lines.append(f"{'all':<16}" + "".join(f"{total[kind]:>14}" for kind in kinds))  # type: ignore[index]
    for record in records:
        if record.kind in ("false-alarm", "miss", "oracle-wrong"):
            said = ", ".join(record.refuted) or "nothing"
            truth = record.defect or f"{record.compiler} {record.reason}"
            lines.append(f"{record.kind}: {record.family} {record.seed} {record.target}: said {said}; {truth[:150]}")
    return "\n".join(lines)


def main() -> int:
    """Run and print; 1 if there is any false alarm or miss."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreement", description=__doc__)
    parser.add_argument("--count", "--kernels", type=int, default=100, help="how many kernels")
    parser.add_argument("--chips", type=int, default=2, help="on how many chips each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", default="", help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--targets", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path, default=Path("agreement.jsonl"))
    options = parser.parse_args()
    known = _load(options.results)
    have = {(r.family, r.seed, r.target) for r in known}
    wanted = list(_wanted(options))
    new, failures = run([job for job in wanted if job not in have], options.results, options.jobs)
    shown = [r for r in [*known, *new] if (r.family, r.seed, r.target) in set(wanted)]
    print(table(shown))
    for failure in failures:
        print("failed:", failure)
    return int(any(r.kind in ("false-alarm", "miss", "oracle-wrong") for r in shown) or bool(failures))


if __name__ == "__main__":
    sys.exit(main())
