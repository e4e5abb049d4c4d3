"""mypy with the plugin, run on files, its messages read back."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from typedpallas.diagnostics import Diagnostic

CONFIG = "[mypy]\nplugins = typedpallas_mypy\ncheck_untyped_defs = True\n"
_OPEN = "open: "
"""How the plugin's notes begin about what it could not decide."""

_LINE = re.compile(
    r"(?P<file>.+?):(?P<line>\d+):(?P<column>\d+):\d+:(?P<end>\d+): "
    r"(?P<kind>error|note): (?P<text>.*?)(?:  \[(?P<code>[\w-]+)\])?"
)


@dataclass(frozen=True)
class Error:
    """An error of mypy's, or what the plugin could not decide; ``end_column`` is 1-based and exclusive."""

    diagnostic: Diagnostic
    end_column: int


class MypyFailed(Exception):
    """mypy did not check the files; ``str()`` is what it said."""


def check(files: Sequence[str], folder: Path, cache: Path) -> list[Error]:
    """What mypy with the plugin says of files in ``folder``, in mypy's order.

    Raises:
        MypyFailed: mypy was stopped by something else than errors in the files.
    """
    config = folder / "mypy.ini"
    config.write_text(CONFIG)
    return parsed(asked(files, folder, ("--config-file", str(config), "--cache-dir", str(cache))))


def asked(
    files: Sequence[str], folder: Path, options: Sequence[str], settings: Mapping[str, str] | None = None
) -> str:
    """mypy's output on files, run in ``folder``; ``settings`` are environment variables beside the present ones.

    Raises:
        MypyFailed: mypy was stopped by something else than errors in the files.
    """
    shape = ["--no-error-summary", "--hide-error-context", "--show-error-end", "--no-color-output", "--no-pretty"]
    command = [sys.executable, "-m", "mypy", *options, *shape, *files]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        env={**os.environ, **(settings or {})},
    )
    if done.returncode not in (0, 1):
        raise MypyFailed((done.stdout + done.stderr).strip())
    return done.stdout


def parsed(output: str) -> list[Error]:
    """The errors in mypy's output, each with the notes that follow it, and what the plugin left open."""
    found: list[Error] = []
    for line in output.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        if match["kind"] == "error" or match["text"].startswith(_OPEN):
            found.append(_error(match))
        elif found and found[-1].diagnostic.line == int(match["line"]):
            found[-1] = _noted(found[-1], match["text"])
    return found


def _error(match: re.Match[str]) -> Error:
    diagnostic = Diagnostic(
        rule=match["code"] or ("misc" if match["kind"] == "error" else "unknown"),
        verdict="refuted" if match["kind"] == "error" else "open",
        level="types",
        target=None,
        file=match["file"],
        line=int(match["line"]),
        column=int(match["column"]),
        message=match["text"].removeprefix(_OPEN),
    )
    return Error(diagnostic, int(match["end"]) + 1)


def _noted(error: Error, text: str) -> Error:
    item = error.diagnostic
    if text.startswith("help: "):
        return replace(error, diagnostic=replace(item, help=text.removeprefix("help: ")))
    return replace(error, diagnostic=replace(item, notes=(*item.notes, text)))
