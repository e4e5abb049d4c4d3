"""Many kernels judged by a few processes, each with warm compilers; every answer is kept as it comes."""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from benchmarks.agreement.judge import Record, judge


def _safe_judge(job: tuple[str, int, str]) -> Record | str:
    try:
        return judge(*job)
    except Exception as error:
        return f"{job}: {type(error).__name__}: {error}"[:600]


def run(jobs: list[tuple[str, int, str]], path: Path, workers: int) -> tuple[list[Record], list[str]]:
    """Judge every job, appending to ``path``; the second list has the jobs that raised."""
    records: list[Record] = []
    failures: list[str] = []
    begin = time.monotonic()
    with (
        path.open("a") as out,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
    ):
        futures = [pool.submit(_safe_judge, job) for job in jobs]
        for done, future in enumerate(as_completed(futures), 1):
            result = future.result()
            if isinstance(result, str):
                failures.append(result)
            else:
                records.append(result)
                out.write(json.dumps(result.as_json()) + "\n")
                out.flush()
            rate = done / (time.monotonic() - begin)
            print(f"\r{done}/{len(jobs)}  {rate:.1f}/s", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return records, failures
