"""``python -m benchmarks.real_kernels``: 105 calls of other people's kernels, checker beside compiler.

The kernels of the installed JAX are always there; the other packages are looked for in ``--packages`` (see
``setup.sh``), and their calls are skipped without it. Results are kept in a file, one line each; a second run
goes on where the first stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from benchmarks.real_kernels import expected
from benchmarks.real_kernels.judge import Record, judge
from benchmarks.real_kernels.report import kinds, table

type Job = tuple[str, str, str, bool]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_kernels", description=__doc__)
    parser.add_argument("--packages", type=Path, help="the folder that setup.sh made")
    parser.add_argument("--only", default="", help="calls whose name has this in it")
    parser.add_argument("--targets", default="", help="chips, separated by commas; all of a call's without it")
    parser.add_argument("--compile", choices=("never", "unknown", "always"), default="unknown")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path, default=Path("real_kernels.jsonl"))
    return parser.parse_args()


def _wanted(options: argparse.Namespace) -> list[Job]:
    from benchmarks.real_kernels import calls as calls
    from benchmarks.real_kernels.entry import CALLS

    known = expected.load()
    chosen = set(options.targets.split(",")) if options.targets else None
    folder = "" if options.packages is None else str(options.packages.resolve())
    jobs = []
    for call in CALLS.values():
        for target in call.targets:
            row = known.get((call.name, target))
            asking = options.compile == "always" or (options.compile == "unknown" and not (row and row.compiler))
            if options.only in call.name and (chosen is None or target in chosen):
                jobs.append((call.name, target, folder, asking))
    return jobs


def _load(path: Path) -> list[Record]:
    if not path.exists():
        return []
    return [Record(**json.loads(line)) for line in path.read_text().splitlines() if line.strip()]


def _answer(result: Callable[[], Record], pool: ProcessPoolExecutor) -> Record:
    """A job's record; what it raises ends the run at once, not when all others are through."""
    try:
        return result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _run(jobs: list[Job], path: Path, workers: int) -> list[Record]:
    records = []
    begin = time.monotonic()
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    with path.open("a") as out, pool:
        futures = [pool.submit(judge, *job) for job in jobs]
        for done, future in enumerate(as_completed(futures), 1):
            record = _answer(future.result, pool)
            records.append(record)
            if record.checked != "skipped":
                out.write(json.dumps(record.as_json()) + "\n")
                out.flush()
            spent = time.monotonic() - begin
            print(f"\r{done}/{len(jobs)}  {spent:.0f} s  {record.call[:60]:<60}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return records


def main() -> int:
    """Run and print; 1 if a kernel that compiles is refuted, or a known refusal is given another reason."""
    options = _options()
    jobs = _wanted(options)
    asked = {(name, target): asking for name, target, _, asking in jobs}
    kept = [r for r in _load(options.results) if (r.call, r.target) in asked]
    kept = [r for r in kept if r.compiler or not asked[r.call, r.target]]
    have = {(r.call, r.target) for r in kept}
    records = [*kept, *_run([job for job in jobs if job[:2] not in have], options.results, options.jobs)]
    order = {key: position for position, key in enumerate(asked)}
    records.sort(key=lambda record: order[record.call, record.target])
    rows = expected.load()
    print(table(records, rows))
    return int(any(name in ("false-alarm", "wrong-rule") for name, _ in kinds(records, rows)))


if __name__ == "__main__":
    sys.exit(main())
