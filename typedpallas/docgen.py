"""Pages made from the code: a page for each rule, their index, and the table of chips.

``python -m typedpallas.docgen`` writes them below ``docs/``; with ``--check`` it writes nothing and exits with 1 if
a page is not what it would write.
"""

import argparse
import difflib
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from typedpallas import chips, rules
from typedpallas.rules import Level, Rule

COMMAND = "python -m typedpallas.docgen"
_MARK = f"<!-- Made by `{COMMAND}`. Edit the rule, not this page. -->\n\n"
_LEVELS: dict[Level, str] = {"types": "mypy", "trace": "check", "compile": "compile"}
_COMPILER = {
    "refuses": "the vendor's compiler refuses the defect",
    "accepts": "the vendor's compiler takes the defect without a word",
    "crashes": "the vendor's compiler crashes on the defect",
}


def paragraphs(rule: Rule) -> list[str]:
    """The paragraphs of the rule's docstring, each on one line."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", type(rule).__doc__ or "") if part.strip()]


def what(rule: Rule) -> str:
    """What the rule refuses, in a sentence."""
    return paragraphs(rule)[0]


def template(rule: Rule) -> str:
    """The rule's message with its gaps: ``cannot load from `<name>```."""
    return re.sub(r"\{(\w+)[^}]*\}", r"<\1>", rule.message)


def seen_by(rule: Rule) -> str:
    """The levels at which the rule speaks."""
    return ", ".join(_LEVELS[level] for level in rule.example.levels)


def facts(rule: Rule) -> list[tuple[str, str]]:
    """Where the rule speaks and where its example is shown, as label and text."""
    shown = ", ".join(rule.example.targets)
    return [
        ("seen by", seen_by(rule)),
        ("example", f"shown on {shown}: {_COMPILER[rule.example.compiler]}"),
    ]


def fix(rule: Rule) -> list[str]:
    """The change from the refused kernel to its fix, as the lines of a diff with no header."""
    bad, good = (text.strip().splitlines() for text in (rule.example.bad, rule.example.good))
    lines = list(difflib.unified_diff(bad, good, lineterm="", n=2))[2:]
    return ["..." if line.startswith("@@") else line for line in lines][1:]


def summary(rule: Rule) -> dict[str, object]:
    """What tools want to know of a rule."""
    return {
        "rule": rule.slug,
        "what": what(rule),
        "message": template(rule),
        "levels": list(rule.example.levels),
        "example_targets": list(rule.example.targets),
        "compiler": rule.example.compiler,
    }


def page(rule: Rule) -> str:
    """A rule's page in Markdown."""
    body = "\n\n".join(textwrap.fill(text, 110, break_on_hyphens=False) for text in paragraphs(rule))
    told = "\n".join(f"* {label}: {text}" for label, text in facts(rule))
    return (
        f"{_MARK}# {rule.slug}\n\n> {template(rule)}\n\n{body}\n\n{told}\n\n"
        f"## Refused\n\n```python\n{rule.example.bad.strip()}\n```\n\n"
        f"## The fix\n\n```diff\n" + "\n".join(fix(rule)) + "\n```\n"
    )


def index() -> str:
    """The list of rules in Markdown."""
    rows = [f"| [{r.slug}]({r.slug}.md) | {seen_by(r)} | {what(r)} |" for r in rules.all_rules().values()]
    head = "| rule | seen by | what it refuses |\n|---|---|---|\n"
    intro = (
        "mypy: the plugin sees it in the source. check: `typedpallas check` and `tp.check` see it in the trace.\n"
        "`typedpallas explain RULE` prints a rule's page.\n\n"
    )
    return f"{_MARK}# The rules\n\n{intro}{head}" + "\n".join(rows) + "\n"


def chip_page() -> str:
    """The table of chips in Markdown."""
    from typedpallas.cli import targets

    rows = [" | ".join(targets.row(chips.get(name))) for name in chips.targets()]
    head = f"| {' | '.join(targets.HEAD)} |\n|{'---|' * len(targets.HEAD)}\n"
    intro = "Every chip that can be compiled for with no such chip around. The data and their sources are in\n"
    intro += "`typedpallas/chips/*.toml`.\n\n"
    mark = _MARK.replace("the rule", "the chip's file")
    return f"{mark}# Targets\n\n{intro}{head}" + "\n".join(f"| {line} |" for line in rows) + "\n"


def pages() -> Iterator[tuple[str, str]]:
    """Every made page: its path below ``docs/`` and its text."""
    yield "rules/index.md", index()
    yield "targets.md", chip_page()
    for rule in rules.all_rules().values():
        yield f"rules/{rule.slug}.md", page(rule)


def stale(docs: Path) -> list[str]:
    """The pages below ``docs`` that differ from what would be written, are missing, or belong to no rule."""
    wanted = dict(pages())
    wrong = [name for name, text in wanted.items() if not _is(docs / name, text)]
    orphans = [f"rules/{f.name}" for f in (docs / "rules").glob("*.md") if f"rules/{f.name}" not in wanted]
    return sorted(wrong + orphans)


def _is(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text(encoding="utf-8") == text


def write(docs: Path) -> None:
    """Write every page that is not as it should be, and remove pages of rules that are gone."""
    wanted = dict(pages())
    (docs / "rules").mkdir(parents=True, exist_ok=True)
    for name in stale(docs):
        if name in wanted:
            (docs / name).write_text(wanted[name], encoding="utf-8")
        else:
            (docs / name).unlink()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or with ``--check`` only say which are stale."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is stale")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="the folder (default: docs)")
    options = parser.parse_args(arguments)
    if not options.check:
        write(options.docs)
        return 0
    found = stale(options.docs)
    for name in found:
        print(f"{options.docs / name} is stale: run `{COMMAND}`", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
