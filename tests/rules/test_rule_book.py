"""What every rule owes: a name, words, an example, a page."""

import ast
import inspect
import re
import string
from pathlib import Path

import pytest
import rule_examples

from typedpallas import diagnostics, rules

FOLDER = Path(rules.__file__).parent
FILES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "base" and not path.stem.startswith("_"))
each_rule = pytest.mark.parametrize("rule", rule_examples.RULES, ids=lambda rule: rule.slug)


def test_every_file_is_one_rule_of_its_name() -> None:
    assert sorted(slug.replace("-", "_") for slug in rules.all_rules()) == FILES


@each_rule
def test_the_slug_names_a_defect_in_kebab_case(rule: rules.Rule) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.slug)
    name = "".join(part.capitalize() for part in rule.slug.split("-"))
    assert type(rule).__name__ == name


@each_rule
def test_the_message_follows_the_convention(rule: rules.Rule) -> None:
    text = rule.message
    assert not text.endswith(".") and text == text.strip() and "\n" not in text
    first = text.lstrip("`")[0]
    assert first.islower() or first == "{", text
    if "expected" in text:
        assert text.index("expected") < text.index("found") if "found " in text.split("expected")[-1] else True


@each_rule
def test_the_docstring_is_a_page(rule: rules.Rule) -> None:
    page = inspect.getdoc(type(rule)) or ""
    assert page.split("\n\n")[0].endswith(".")
    assert "Machines: " in page, "says where it holds"
    assert "Source: " in page, "says how it is known"


@each_rule
def test_the_example_is_whole(rule: rules.Rule) -> None:
    example = rule.example
    assert example.targets and example.levels and example.bad != example.good
    for source in (example.bad, example.good):
        names = {getattr(node, "name", "") for node in ast.walk(ast.parse(source))}
        assert {"run", "reference"} <= names
        assert "ARGS" in source


@each_rule
def test_every_finding_fills_its_message(rule: rules.Rule) -> None:
    """The fields of the message are among the keywords of each call that makes a finding."""
    fields = {name for _, name, _, _ in string.Formatter().parse(rule.message) if name}
    source = (FOLDER / f"{rule.slug.replace('-', '_')}.py").read_text()
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("self.refuted", "self.open", "make", "say")
    ]
    for call in calls:
        given = {keyword.arg for keyword in call.keywords}
        if None in given:
            continue
        assert fields <= given, f"line {call.lineno}"


def test_an_unknown_rule_is_refused_with_the_nearest() -> None:
    with pytest.raises(KeyError, match="load-from-hbm"):
        rules.by_slug("load-from-hmb")


def test_a_finding_renders_with_its_slug() -> None:
    finding = rules.by_slug("captured-constant").refuted(
        kind="kernel", function="k", found="`f32[]`", expected="refs", help="pass it"
    )
    shown = diagnostics.diagnose(
        finding, level="trace", target=None, place=diagnostics.Place(file="a.py", line=3), kernel="k"
    )
    assert str(shown).splitlines()[0].startswith("a.py:3: error: kernel `k` closes over `f32[]`")
    assert "[captured-constant]" in str(shown)
