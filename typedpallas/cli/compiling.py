"""``typedpallas compile``: the verdict of each chip's own compiler, its time and the memory it plans."""

import argparse
import json
from collections.abc import Sequence

from typedpallas.cli import avals, loading, targets, terminal
from typedpallas.cli.asking import Answer, answers, spoken
from typedpallas.cli.terminal import Screen


def run(options: argparse.Namespace) -> int:
    """Compile, print, and return 1 if a compiler did not take it, 2 if one is not installed."""
    shapes = avals.parse_avals(options.args)
    blocks = avals.parse_blocks(options.blocks) if options.blocks else {}
    chosen = targets.named(options.target)
    picked = loading.load(options.what).bound(blocks, options.backend)
    found = list(answers(picked, avals.to_jax(shapes), chosen, options.deadline).values())
    on = terminal.screen(folded=True)
    if options.format == "json":
        on.write(json.dumps({"function": picked.name, "targets": [a.as_json() for a in found]}, indent=2))
    else:
        for line in report(on, found):
            on.write(line)
    kinds = {item.kind for item in found}
    return 1 if kinds & {"refused", "crashed", "timeout"} else 2 if "unavailable" in kinds else 0


def report(on: Screen, found: Sequence[Answer]) -> list[str]:
    """The table, then who compiled, what should be known of it, and refusals in full."""
    rows = [(item.target, _planned(item, "temporaries"), _planned(item, "code"), spoken(item)) for item in found]
    lines = terminal.table(on, ("target", "temporaries", "code", "verdict"), rows)
    compilers = dict.fromkeys(item.compiler for item in found if item.compiler)
    notes = [f"{item.target}: {note}" for item in found for note in item.notes]
    if compilers or notes:
        lines += ["", *(f"compiled with {name}" for name in compilers)]
        lines += [on.fold(note, "  ", "") for note in notes]
    for item in found:
        lines += _refusal(on, item)
    return lines


def _refusal(on: Screen, item: Answer) -> list[str]:
    """The line that a compiler names, and its own words where they are more than the reason."""
    lines = []
    if item.where is not None:
        file, number = item.where
        lines += ["", f"{terminal.shown_path(file)}:{number}: the compiler for {item.target} stops here"]
        lines += terminal.excerpt(on, file, number, 0)
    if len(item.detail.strip().splitlines()) > 1:
        lines += ["", on.paint(f"{item.target}, in the compiler's own words:", "bold")]
        lines += [f"  {line}" for line in item.detail.strip().splitlines()]
    return lines


def _planned(item: Answer, figure: str) -> str:
    count = None if item.memory is None else item.memory[figure]
    return "" if count is None else bytes_text(count)


def bytes_text(count: int) -> str:
    """``16.0 MiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
