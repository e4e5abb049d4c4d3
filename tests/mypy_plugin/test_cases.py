"""Every case file: what mypy says on each line, and that what passes really runs."""

import importlib.util
import re

import harness
import pytest

PASSING = sorted((harness.CASES / "passing").glob("*.py"))
FAILING = sorted((harness.CASES / "failing").glob("*.py"))
_EXPECTED = re.compile(r"# E: (.+)$")


def _expected(path):
    """What each line of a failing file wants: a slug, or a part of the text."""
    lines = enumerate(path.read_text().splitlines(), start=1)
    return {number: match[1] for number, line in lines if (match := _EXPECTED.search(line))}


@pytest.mark.parametrize("path", PASSING, ids=lambda path: path.stem)
def test_passing_is_clean(path, checked):
    assert [m for m in checked if m.file == path.name and m.kind == "error"] == []


@pytest.mark.parametrize("path", PASSING, ids=lambda path: path.stem)
def test_passing_runs(path):
    spec = importlib.util.spec_from_file_location(f"case_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.run()


@pytest.mark.parametrize("path", FAILING, ids=lambda path: path.stem)
def test_failing_has_one_error_where_it_says(path, checked):
    errors = [m for m in checked if m.file == path.name and m.kind == "error"]
    expected = _expected(path)
    assert sorted(m.line for m in errors) == sorted(expected)
    for message in errors:
        want = expected[message.line]
        assert want == message.code or want in message.text, message


def test_notes_follow_their_error(checked):
    notes = [m for m in checked if m.file == "matmul_broken.py" and m.kind == "note" and m.line == 25]
    assert any("(BK,) and (BN,)" in m.text for m in notes), notes


def test_passing_is_clean_without_allow_redefinition(tmp_path):
    """mypy's default keeps the first type of a variable; ``v = v.T`` must not become an error."""
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nplugins = typedpallas_mypy\ncheck_untyped_defs = True\n")
    done = harness.mypy(PASSING, config=config, cache=harness.CACHE / "with")
    assert [m for m in harness.messages(done.stdout) if m.kind == "error"] == []
