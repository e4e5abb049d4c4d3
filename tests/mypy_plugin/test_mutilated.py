"""Whatever stands in a file, mypy goes through it: no crash, and no failure that the guard would have to hide."""

import re

import harness
import mutilate
import pytest

from typedpallas import rules

_SEEDS = (1, 2)
_COUNT = 60


def _sources():
    """The plugin's own cases, and the examples of rules that mypy decides."""
    for folder in (harness.CASES / "passing", harness.CASES / "failing", harness.HERE / "calls"):
        for path in sorted(folder.glob("*.py")):
            yield path.read_text()
    for rule in rules.all_rules().values():
        if "types" in rule.example.levels:
            yield from (rule.example.bad, rule.example.good)


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("seed", _SEEDS)
def test_mutilated_kernels_are_only_wrong(tmp_path, seed):
    """Failures of hooks are raised here (see `harness.mypy`), and end mypy as an internal error would."""
    for i, text in enumerate(mutilate.mutilated(list(_sources()), _COUNT, seed)):
        (tmp_path / f"kernel_{i}.py").write_text(text)
    files = sorted(path.name for path in tmp_path.glob("*.py"))
    settings = {"TYPEDPALLAS_TARGETS": "tpu-v5e,h100", "TYPEDPALLAS_SHOW_OPEN": "1"} if seed % 2 else {}
    done = harness.mypy(["--show-traceback", *files], cwd=tmp_path, environment=settings)
    assert "INTERNAL ERROR" not in done.stdout + done.stderr and not done.stderr, done.stderr[-3000:]
    assert re.search(rf"checked {_COUNT} source files", done.stdout), done.stdout[-3000:]
