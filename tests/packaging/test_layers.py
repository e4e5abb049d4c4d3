"""The layers that import-linter holds, and that it would notice if they broke."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", program, "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the sources, found before the installed ones because it is the working folder."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "typedpallas", tmp_path / "typedpallas", ignore=ignore)
    shutil.copytree(ROOT / "mypy_plugin" / "typedpallas_mypy", tmp_path / "typedpallas_mypy", ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


BREAKS = {
    "the rule book imports neither JAX nor mypy": ("typedpallas/dims.py", "import jax"),
    "at run time nothing needs the plugin": ("typedpallas/unify.py", "import typedpallas_mypy"),
    "the plugin neither traces, launches nor compiles": (
        "typedpallas_mypy/plugin.py",
        "from typedpallas.tracing import check",
    ),
}


def test_every_contract_has_a_break() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert {contract["name"] for contract in contracts} == BREAKS.keys()


def test_the_contracts_hold(copy: Path) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("contract", BREAKS)
def test_a_broken_contract_is_noticed(copy: Path, contract: str) -> None:
    file, line = BREAKS[contract]
    with (copy / file).open("a") as source:
        source.write(f"\n\ndef _broken() -> None:\n    {line}\n")
    done = lint(copy)
    assert done.returncode != 0
    assert f"{contract} BROKEN" in done.stdout
    assert done.stdout.count("BROKEN") == 1, done.stdout


def test_an_indirect_import_is_noticed(copy: Path) -> None:
    """`typedpallas.dims` may not reach JAX through a module that is free to import it either."""
    with (copy / "typedpallas" / "dims.py").open("a") as source:
        source.write("\n\ndef _broken() -> None:\n    import typedpallas.values\n")
    assert "the rule book imports neither JAX nor mypy BROKEN" in lint(copy).stdout
