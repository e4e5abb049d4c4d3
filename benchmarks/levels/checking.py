"""Level 1: one run of mypy over several modules, with the plugin that records."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.levels.judge import Error, Subject, judgements
from typedpallas import rules

_ROOT = Path(__file__).parent.parent.parent
_PLAIN = """[mypy]
check_untyped_defs = True
allow_redefinition = True
"""
_CONFIG = f"""{_PLAIN}plugins = {Path(__file__).with_name("recorder.py")}
"""
_ERROR = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*?)(?:  \[(?P<code>[a-z0-9-]+)\])?$")
_DEADLINE_SECONDS = 600


def checked(subjects: Sequence[Subject], target: str, folder: Path) -> Sequence[Subject]:
    """The subjects with what mypy said of each; what it says without the plugin too is left out.

    Raises:
        RuntimeError: mypy could not carry it out; the message is mypy's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(f'[tool.typedpallas]\ntargets = ["{target}"]\n')
    files = {subject.name: folder / f"{subject.name}.py" for subject in subjects}
    for subject in subjects:
        files[subject.name].write_text(subject.source)
    record = folder / "record.jsonl"
    record.write_text("")
    errors = _errors(_mypy(list(files.values()), folder, record, _CONFIG))
    said = judgements(record.read_text())
    foreign = [files[name] for name, found in errors.items() if any(e.code not in rules.all_rules() for e in found)]
    plain = _errors(_mypy(foreign, folder, record, _PLAIN)) if foreign else {}
    own = {name: [e for e in found if not _among(e, plain.get(name, ()))] for name, found in errors.items()}
    return [replace(s, errors=tuple(own.get(s.name, ())), judgements=said.get(s.name, ())) for s in subjects]


def _among(error: Error, plain: Sequence[Error]) -> bool:
    """Whether mypy says it without the plugin too, of JAX's own annotations or of the module's Python."""
    return any((error.line, error.code) == (other.line, other.code) for other in plain)


def _mypy(files: Sequence[Path], folder: Path, record: Path, config: str) -> str:
    name = "plain.ini" if config == _PLAIN else "mypy.ini"
    (folder / name).write_text(config)
    environment = {
        **os.environ,
        "TYPEDPALLAS_MYPY_DEBUG": "1",
        "TYPEDPALLAS_LEVELS_RECORD": str(record),
        "PYTHONPATH": os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "JAX_PLATFORMS": "cpu",
    }
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        name,
        "--cache-dir",
        f".{name}.cache",
        "--no-error-summary",
        *map(str, files),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=_DEADLINE_SECONDS
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"mypy ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def _errors(output: str) -> dict[str, list[Error]]:
    found: dict[str, list[Error]] = defaultdict(list)
    for line in output.splitlines():
        match = _ERROR.match(line)
        if match:
            error = Error(int(match["line"]), match["code"] or "", match["text"])
            found[Path(match["file"]).stem].append(error)
    return found
