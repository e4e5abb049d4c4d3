"""Runs mypy as a user does, in its own process, and reads what it says."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CASES = HERE / "cases"
CONFIG = HERE / "mypy.ini"
CACHE = HERE.parent.parent / ".cache" / "mypy_plugin"
"""Kept between runs: reading jax anew takes mypy 15 seconds."""

_LINE = re.compile(
    r"^(?P<file>.*?):(?P<line>\d+): (?P<kind>error|note): (?P<text>.*?)(?:  \[(?P<code>[a-z0-9-]+)\])?$"
)


@dataclass(frozen=True)
class Message:
    """One line of mypy's output."""

    file: str
    line: int
    kind: str
    text: str
    code: str


def mypy(
    arguments: Sequence[str | Path],
    *,
    config: Path = CONFIG,
    cache: Path = CACHE,
    cwd: Path = HERE,
    environment: dict[str, str] | None = None,
    program: Sequence[str] = ("mypy",),
) -> subprocess.CompletedProcess[str]:
    """Run mypy with the plugin's failures made visible."""
    env = {**os.environ, "TYPEDPALLAS_MYPY_DEBUG": "1", "JAX_PLATFORMS": "cpu", **(environment or {})}
    command = [sys.executable, "-m", *program, "--config-file", config, "--cache-dir", cache, *arguments]
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=cwd, env=env, timeout=300)


def messages(output: str) -> list[Message]:
    """Every error and note of an output."""
    found = []
    for line in output.splitlines():
        match = _LINE.match(line)
        if match:
            code = match["code"] or ""
            found.append(Message(Path(match["file"]).name, int(match["line"]), match["kind"], match["text"], code))
    return found
