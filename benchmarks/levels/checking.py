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

_ROOT = Path(__file__).parent.parent.parent
_CONFIG = f"""[mypy]
plugins = {Path(__file__).with_name("recorder.py")}
check_untyped_defs = True
allow_redefinition = True
"""
_ERROR = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*?)(?:  \[(?P<code>[a-z0-9-]+)\])?$")
_DEADLINE_SECONDS = 600


def checked(subjects: Sequence[Subject], target: str, folder: Path) -> Sequence[Subject]:
    """The subjects with what mypy said of each.

    Raises:
        RuntimeError: mypy could not carry it out; the message is mypy's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mypy.ini").write_text(_CONFIG)
    (folder / "pyproject.toml").write_text(f'[tool.typedpallas]\ntargets = ["{target}"]\n')
    files = [folder / f"{subject.name}.py" for subject in subjects]
    for file, subject in zip(files, subjects, strict=True):
        file.write_text(subject.source)
    record = folder / "record.jsonl"
    record.write_text("")
    errors = _errors(_mypy(files, folder, record))
    said = judgements(record.read_text())
    return [replace(s, errors=tuple(errors.get(s.name, ())), judgements=said.get(s.name, ())) for s in subjects]


def _mypy(files: Sequence[Path], folder: Path, record: Path) -> str:
    environment = {
        **os.environ,
        "TYPEDPALLAS_MYPY_DEBUG": "1",
        "TYPEDPALLAS_LEVELS_RECORD": str(record),
        "PYTHONPATH": os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--no-error-summary", *map(str, files)]
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
