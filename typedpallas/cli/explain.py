"""``typedpallas explain RULE``: a rule's page, made from the rule itself."""

import argparse
import textwrap

from typedpallas import docgen, rules
from typedpallas.cli import terminal
from typedpallas.cli.names import nearest
from typedpallas.cli.terminal import Screen
from typedpallas.rules import Rule


def run(options: argparse.Namespace) -> int:
    """Print the page."""
    book = rules.all_rules()
    slug = options.rule.strip("[]`")
    if slug not in book:
        raise nearest(slug, book, "rule")
    on = terminal.screen(folded=True)
    for line in page(book[slug], on):
        on.write(line)
    return 0


def page(rule: Rule, on: Screen) -> list[str]:
    """The rule's page for a terminal."""
    lines = [on.paint(rule.slug, "bold", "cyan"), "", on.fold(docgen.template(rule), "  ")]
    for paragraph in docgen.paragraphs(rule):
        lines += ["", on.fold(paragraph, "  ")]
    lines += ["", *(f"  {on.paint(f'{label:<10}', 'dim')} {text}" for label, text in docgen.facts(rule))]
    lines += ["", on.paint("refused", "bold", "red"), ""]
    lines += textwrap.indent(rule.example.bad.strip(), "    ").splitlines()
    lines += ["", on.paint("the fix", "bold", "green"), ""]
    for line in docgen.fix(rule):
        kind = line[:1]
        lines.append(
            "    " + on.paint(line.rstrip(), *(("red",) if kind == "-" else ("green",) if kind == "+" else ("dim",)))
        )
    return lines
