"""Four type checkers without the plugin, and mypy with it, on one set of files: each line of ``bad/`` marked
``# refused`` is refused by all of them, and no other line by any, the package's own kernels included."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from typedpallas import kernels

HERE = Path(__file__).parent
KINDS = {"ok": HERE / "ok", "bad": HERE / "bad", "kernels": Path(kernels.__file__).parent}
FILES = sorted(Path(kind) / path.name for kind, folder in KINDS.items() for path in folder.glob("*.py"))
_JAX_S_OWN = {"reportUnknownMemberType": False}
"""Pyright's strict mode reports every use of a JAX function one of whose parameters JAX leaves without a type."""
CACHE = HERE.parents[1] / ".cache" / "static-mypy"
Lines = dict[Path, dict[int, str]]
"""What a checker has to say: by file and line."""


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), f"{command[0]} did not run:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _matches(pattern: str, output: str) -> Lines:
    found: Lines = {}
    for match in re.finditer(pattern, output, re.MULTILINE):
        found.setdefault(Path(match["file"]), {})[int(match["line"])] = match["message"]
    return found


def mypy(folder: Path, more: str = "", cache: str = "plain") -> Lines:
    (folder / "mypy.ini").write_text(f"[mypy]\nstrict = true\nuntyped_calls_exclude = jax\n{more}")
    output = _run(folder, "mypy", "--config-file=mypy.ini", f"--cache-dir={CACHE / cache}", *KINDS)
    return _matches(r"^(?P<file>\S+\.py):(?P<line>\d+): error: (?P<message>.*)$", output)


def mypy_with_the_plugin(folder: Path) -> Lines:
    return mypy(folder, "plugins = typedpallas_mypy\nallow_redefinition = true\n", "plugin")


def pyright(folder: Path) -> Lines:
    if shutil.which("node") is None:
        pytest.skip("pyright needs node: install nodejs to run this check")
    (folder / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "strict", "include": list(KINDS), "pythonVersion": "3.12"} | _JAX_S_OWN)
    )
    output = _run(folder, "pyright", "--pythonpath", sys.executable, "--outputjson")
    if not output.lstrip().startswith("{"):
        pytest.skip(f"pyright cannot start; it is downloaded on its first run: {output.strip()[:200]}")
    found: Lines = {}
    for item in json.loads(output)["generalDiagnostics"]:
        file = Path(item["file"]).relative_to(folder.resolve())
        found.setdefault(file, {})[item["range"]["start"]["line"] + 1] = item["message"]
    return found


def ty(folder: Path) -> Lines:
    (folder / "ty.toml").write_text("")
    output = _run(folder, "ty", "check", "--python", sys.executable, "--output-format", "concise", *KINDS)
    return _matches(r"^(?P<file>\S+\.py):(?P<line>\d+):\d+: error(?P<message>.*)$", output)


def pyrefly(folder: Path) -> Lines:
    (folder / "pyrefly.toml").write_text(f'preset = "strict"\nproject-includes = {json.dumps(list(KINDS))}\n')
    output = _run(
        folder, "pyrefly", "check", "--python-interpreter-path", sys.executable, "--output-format", "min-text"
    )
    return _matches(r"^ERROR (?P<file>\S+\.py):(?P<line>\d+):[\d:-]+: (?P<message>.*)$", output)


CHECKERS: dict[str, Callable[[Path], Lines]] = {
    "mypy": mypy,
    "mypy with the plugin": mypy_with_the_plugin,
    "pyright": pyright,
    "ty": ty,
    "pyrefly": pyrefly,
}


@pytest.fixture(scope="module", params=CHECKERS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lines:
    """What one checker says of all files, copied to where no other configuration applies."""
    folder = tmp_path_factory.mktemp(request.param)
    for kind, sources in KINDS.items():
        shutil.copytree(sources, folder / kind, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / kind / "__init__.py").touch()
    return CHECKERS[request.param](folder)


def marked(file: Path) -> set[int]:
    lines = (KINDS[file.parts[0]] / file.name).read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}


@pytest.mark.parametrize("file", FILES, ids=str)
def test_refuses_exactly_the_marked_lines(found: Lines, file: Path) -> None:
    said = found.get(file, {})
    expected = marked(file)
    unwanted = {line: message for line, message in said.items() if line not in expected}
    assert not unwanted, f"errors on lines that are right: {unwanted}"
    assert expected <= said.keys(), f"lines let through: {sorted(expected - said.keys())}"


def test_bad_files_have_marks_and_good_ones_none() -> None:
    assert all(bool(marked(file)) == (file.parts[0] == "bad") for file in FILES)
