"""What the vendor's compiler said of each call on each chip, as data (`expected.tsv`).

Columns: the call's name, the chip, what came of it, how many kernels JAX found, the first words of a refusal, and
the rule that is expected to say the same where the reason is in the rules' scope.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

type Verdict = Literal["accepted", "refused", "untraced", "no-kernel", ""]
"""``untraced``: the package itself, or JAX, stops while tracing; ``no-kernel``: the package falls back to XLA;
empty: never asked."""

_FILE = Path(__file__).with_name("expected.tsv")


@dataclass(frozen=True)
class Expected:
    """One row."""

    compiler: Verdict
    kernels: int | None
    reason: str
    rule: str


def load() -> dict[tuple[str, str], Expected]:
    """Every row, by call and chip."""
    with _FILE.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return {(row["call"], row["target"]): _row(row) for row in rows}


def _row(row: dict[str, str]) -> Expected:
    kernels = int(row["kernels"]) if row["kernels"] else None
    return Expected(cast(Verdict, row["compiler"]), kernels, row["reason"], row["rule"])
