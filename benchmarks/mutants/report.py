"""Who notices, and when: by group of defect, then each mutant that typedpallas misses or misnames."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.mutants.judge import Record
from benchmarks.mutants.subjects import GROUPS, Subject

type Row = tuple[Subject, Record]

STAGES = {
    "trace": "Pallas trace",
    "lower": "lowering",
    "hlo": "interpret",
    "machine": "races+NaN",
    "compiler": "compiler",
}


def said_no(answer: str) -> bool:
    """Whether a stage was reached and is not content."""
    return answer not in ("ok", "-")


def noticed(row: Row) -> bool:
    """Whether level 2 refuses it, in its own words or by passing JAX's on."""
    return bool(row[1].trace or row[1].passed_on)


def named(row: Row) -> bool:
    """Whether level 2 gives one of the rules that name the defect."""
    return bool(set(row[0].rules) & set(row[1].trace))


def table(rows: Sequence[Row]) -> str:
    """Mutants that each stage notices, by group. A stage that an earlier one keeps from running notices nothing."""
    columns: dict[str, Callable[[Row], bool]] = {
        title: (lambda row, stage=stage: said_no(row[1].answers[stage])) for stage, title in STAGES.items()
    }
    columns["typedpallas"] = noticed
    columns["right rule"] = named
    heads = ["mutants", *columns, "mypy"]
    lines = ["".ljust(16) + "".join(head.rjust(13) for head in heads)]
    for group in [*GROUPS, "all"]:
        some = [row for row in rows if group in ("all", row[0].group)]
        counts = [str(len(some)), *(str(sum(map(column, some))) for column in columns.values()), _types(some)]
        lines.append(group.ljust(16) + "".join(count.rjust(13) for count in counts))
    silent = [row for row in rows if not any(said_no(row[1].answers[stage]) for stage in STAGES)]
    lines.append(f"{len(silent)} pass everything else; typedpallas notices {sum(map(noticed, silent))} of them")
    return "\n".join(lines)


def _types(rows: Sequence[Row]) -> str:
    typed = [record.types for _, record in rows if record.types is not None]
    return f"{sum(map(bool, typed))} of {len(typed)}" if typed else ""


def listing(rows: Sequence[Row]) -> str:
    """Every mutant in one line."""
    lines = []
    for subject, record in rows:
        others = ", ".join(
            f"{title}: {record.answers[s]}" for s, title in STAGES.items() if said_no(record.answers[s])
        )
        ours = " ".join(record.trace) or (record.passed_on and f"JAX's error: {record.passed_on}") or "nothing"
        lines.append(f"{subject.name} [{subject.group}, expected {' or '.join(subject.rules)}] {record.target}")
        lines.append(f"    typedpallas: {ours}" + (f" (mypy: {' '.join(record.types)})" if record.types else ""))
        lines.append(f"    others: {others or 'nothing'}"[:240])
    return "\n".join(lines)


def alarms(rows: Sequence[Row]) -> list[str]:
    """What is wrong with the originals: each must compile, agree with its reference and pass."""
    found = []
    for subject, record in rows:
        said = {stage: answer for stage, answer in record.answers.items() if said_no(answer)} | record.extra
        if record.trace or record.passed_on or record.types or said:
            found.append(
                f"{subject.name}: {' '.join(record.trace)} {record.passed_on} {record.types or ''} {said or ''}"
            )
    return found
