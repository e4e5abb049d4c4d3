"""``typedpallas rules``: the rule book in one table."""

import argparse
import json

from typedpallas import docgen, rules
from typedpallas.cli import terminal


def run(options: argparse.Namespace) -> int:
    """Print one line for each rule."""
    book = rules.all_rules().values()
    on = terminal.screen(folded=True)
    if options.format == "json":
        on.write(json.dumps([docgen.summary(rule) for rule in book], indent=2))
        return 0
    rows = [(rule.slug, docgen.seen_by(rule), docgen.what(rule)) for rule in book]
    for line in terminal.table(on, ("rule", "seen by", "what it refuses"), rows):
        on.write(line)
    count = f"{len(rows)} {'rule' if len(rows) == 1 else 'rules'}"
    on.write(f"\n{count}. `typedpallas explain RULE` says why, with a refused kernel and its fix.")
    return 0
