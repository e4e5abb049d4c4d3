"""The table: what each package's calls came to, then every row that is not plain agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sized

from benchmarks.real_kernels.entry import CALLS
from benchmarks.real_kernels.expected import Expected
from benchmarks.real_kernels.judge import TABLES, Record

KINDS = ("agree", "open", "false-alarm", "wrong-rule", "miss", "untraced", "no-kernel", "unasked", "skipped")
_NOT_ASKED = Expected("", None, "", "")


def kind(record: Record, expected: Expected) -> str:
    """How the checker's word stands to the compiler's. ``untraced``: nothing to judge, for the compiler neither.

    A refusal that only tracing meets is JAX's or the package's own; both sides see the same.
    """
    compiler = record.compiler or expected.compiler
    if record.checked == "skipped":
        return "skipped"
    if compiler in ("", "unavailable", "timeout"):
        return "unasked"
    if record.checked == "untraced" or compiler == "untraced":
        return "untraced" if compiler == "untraced" else "miss" if compiler != "accepted" else "unasked"
    if record.checked == "refuted":
        if compiler in ("accepted", "no-kernel"):
            return "false-alarm"
        return "agree" if expected.rule in ("", *record.rules) else "wrong-rule"
    if compiler in ("refused", "crashed"):
        return "miss"
    if record.kernels == 0:
        return "no-kernel"
    return record.checked if record.checked == "open" else "agree"


def kinds(records: Iterable[Record], expected: Mapping[tuple[str, str], Expected]) -> list[tuple[str, Record]]:
    """Every record with its kind."""
    return [(kind(record, expected.get((record.call, record.target), _NOT_ASKED)), record) for record in records]


def table(records: Iterable[Record], expected: Mapping[tuple[str, str], Expected]) -> str:
    """Counts by package, what stays open by rule, then each row that someone must look at."""
    judged = kinds(records, expected)
    width = max(len(CALLS[record.call].package) for _, record in judged) + 2
    lines = ["".ljust(width) + "".join(f"{name:>13}" for name in KINDS)]
    for package in [*dict.fromkeys(CALLS[record.call].package for _, record in judged), "all"]:
        counts = Counter(name for name, record in judged if package in ("all", CALLS[record.call].package))
        lines.append(package.ljust(width) + "".join(f"{counts[name]:>13}" for name in KINDS))
    lines += _open(judged)
    lines += [_row(name, record, expected) for name, record in judged if name not in ("agree", "open", "no-kernel")]
    return "\n".join(line for line in lines if line)


def _open(judged: list[tuple[str, Record]]) -> list[str]:
    answered = [record for name, record in judged if name in ("agree", "open", "false-alarm", "wrong-rule", "miss")]
    undecided = [record for record in answered if record.open]
    other = [record for record in undecided if any(TABLES not in question for question in record.open or {})]
    lines = [
        f"open: {_share(undecided, answered)}, all but {_share(other, answered)} because an index map reads a table",
    ]
    for rule, count in Counter(rule for record in undecided for rule in record.open or {}).most_common():
        where = ", ".join(f"{r.call} {r.target}" for r in undecided if rule in (r.open or {}))
        lines.append(f"  {rule} in {count}: {where[:240]}")
    return lines


def _share(some: Sized, all_: Sized) -> str:
    return f"{len(some)} of {len(all_)} ({100 * len(some) / max(1, len(all_)):.1f}%)"


def _row(name: str, record: Record, expected: Mapping[tuple[str, str], Expected]) -> str:
    if name == "skipped":
        return ""
    row = expected.get((record.call, record.target), _NOT_ASKED)
    said = f"{record.compiler or row.compiler} {record.reason or row.reason}".strip()
    found = f"{record.checked} {' '.join(record.rules)} {record.words}".strip()
    return f"{name}: {record.call} {record.target}\n    compiler: {said[:240]}\n    checker: {found[:240]}"
