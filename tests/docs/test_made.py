"""The made pages are as their command would write them, and the check that says so can fail."""

import re
from pathlib import Path

import pytest

from typedpallas import chips, docgen, rules

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def test_the_pages_are_up_to_date() -> None:
    assert docgen.stale(DOCS) == [], f"run `{docgen.COMMAND}`"


def test_every_rule_and_chip_has_its_place() -> None:
    pages = dict(docgen.pages())
    for slug, rule in rules.all_rules().items():
        assert f"[{slug}]({slug}.md)" in pages["rules/index.md"]
        assert rule.example.bad.strip() in pages[f"rules/{slug}.md"]
    assert all(name in pages["targets.md"] for name in chips.targets())
    assert all(docgen.COMMAND in text for text in pages.values())


def test_a_stale_page_is_found_and_mended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert docgen.main(["--docs", str(tmp_path)]) == 0
    assert docgen.main(["--docs", str(tmp_path), "--check"]) == 0
    edited = tmp_path / "rules" / "load-from-hbm.md"
    edited.write_text("edited by hand")
    orphan = tmp_path / "rules" / "no-such-rule.md"
    orphan.write_text("left behind")
    assert docgen.stale(tmp_path) == ["rules/load-from-hbm.md", "rules/no-such-rule.md"]
    capsys.readouterr()
    assert docgen.main(["--docs", str(tmp_path), "--check"]) == 1
    assert docgen.COMMAND in capsys.readouterr().err
    docgen.main(["--docs", str(tmp_path)])
    assert docgen.stale(tmp_path) == []
    assert not orphan.exists()


def test_a_fix_is_the_difference(tmp_path: Path) -> None:
    for rule in rules.all_rules().values():
        bad, good = (set(text.splitlines()) for text in (rule.example.bad, rule.example.good))
        lines = docgen.fix(rule)
        assert {line[1:] for line in lines if line.startswith("+")} >= good - bad
        assert {line[1:] for line in lines if line.startswith("-")} >= bad - good


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")], ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
