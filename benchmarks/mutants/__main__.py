"""``python -m benchmarks.mutants``: right kernels, each broken in one way; who notices, and when.

What JAX and the compilers say is kept in a file and asked again only for a source that changed; typedpallas is
asked afresh each time. 1 is returned if an original raises an alarm or a mutant goes unnoticed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from benchmarks.mutants.answers import Answers
from benchmarks.mutants.judge import judge
from benchmarks.mutants.report import Row, alarms, listing, named, noticed, table
from benchmarks.mutants.subjects import Subject, mutants, originals


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="subjects whose name has this in it")
    parser.add_argument("--no-types", action="store_true", help="leave mypy out")
    parser.add_argument("--list", action="store_true", help="show every mutant")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--answers", type=Path, default=Path("mutants.jsonl"))
    return parser.parse_args()


def _load(path: Path) -> dict[str, Answers]:
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return {row["key"]: Answers(**row["answers"]) for row in rows}


def run(subjects: list[Subject], path: Path, workers: int, with_types: bool) -> list[Row]:
    """Judge them all, in order; new answers of JAX and the compilers are appended to ``path`` as they come."""
    known = _load(path)
    rows: dict[str, Row] = {}
    begin = time.monotonic()
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    with path.open("a") as out, pool:
        futures = {pool.submit(judge, subject, known, with_types): subject for subject in subjects}
        for done, future in enumerate(as_completed(futures), 1):
            subject = futures[future]
            record, key, said = future.result()
            rows[subject.name] = (subject, record)
            if key not in known:
                known[key] = said
                out.write(json.dumps({"key": key, "name": subject.name, "answers": said.as_json()}) + "\n")
                out.flush()
            spent = time.monotonic() - begin
            print(f"\r{done}/{len(subjects)}  {spent:.0f} s  {subject.name:<50}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return [rows[subject.name] for subject in subjects]


def main() -> int:
    """Run and print."""
    options = _options()
    subjects = [s for s in [*originals(), *mutants()] if options.only in s.name]
    rows = run(subjects, options.answers, options.jobs, not options.no_types)
    right = [row for row in rows if not row[0].group]
    broken = [row for row in rows if row[0].group]
    print(table(broken))
    wrong = alarms(right)
    print(f"originals: {len(right)}, of which {len(wrong)} raise an alarm")
    for line in wrong:
        print("  ", line)
    missed = [row for row in broken if not noticed(row)]
    shown = broken if options.list else [row for row in broken if not named(row)]
    print(f"unnoticed: {len(missed)}; noticed under another rule or in JAX's words: {len(shown) - len(missed)}")
    print(listing(shown))
    return int(bool(wrong or missed))


if __name__ == "__main__":
    sys.exit(main())
