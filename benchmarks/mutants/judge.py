"""One subject on its first chip: everybody's answers, then typedpallas at its two levels."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import typedpallas as tp
from benchmarks.mutants import answers
from benchmarks.mutants.answers import NOT_REACHED, Answers
from benchmarks.mutants.subjects import Module, Subject, chip, execute
from typedpallas.pattern import PatternError

_CODE = re.compile(r": error: .*  \[(?P<code>[a-z0-9-]+)\]$", re.MULTILINE)
_CONFIG = "[mypy]\nplugins = typedpallas_mypy\ncheck_untyped_defs = True\nallow_redefinition = True\n"


@dataclass(frozen=True)
class Record:
    """Who said what about one subject on one chip."""

    name: str
    target: str
    answers: dict[str, str]
    trace: tuple[str, ...] = ()
    """Rules that refute at level 2."""
    passed_on: str = ""
    """What JAX said where `tp.check` has nothing to add to it."""
    open: tuple[str, ...] = ()
    types: tuple[str, ...] | None = None
    """Error codes of mypy, level 1; none where the kernel is not typed."""
    words: str = ""
    extra: dict[str, str] = field(default_factory=dict)
    """Originals only: the compilers of the other chips, where they refuse, and the rules that refute there."""

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def judge(subject: Subject, known: dict[str, Answers], with_types: bool) -> tuple[Record, str, Answers]:
    """Judge it; ``known`` are kept answers. Gives back the answers and their key, to be kept."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "subject.py"
        target = chip(subject.source)
        name = answers.key(subject.source, target)
        types = _typed(file, Path(folder), subject.source) if with_types and subject.typed else None
        try:
            module = execute(subject.source, file)
        except (tp.PlacementError, PatternError) as error:
            said = Answers(*[NOT_REACHED] * 5)
            rules = _made(error)
            record = Record(subject.name, target, said.as_json(), rules, types=types, words=str(error))
            return record, name, said
        said = known.get(name) or answers.ask(module, file, target)
        # Executed anew: JAX keeps traces, and these were made with typedpallas's own checks off.
        rules, undecided, passed_on, words = _checked(execute(subject.source, file), target)
        extra = {} if subject.group else _elsewhere(module)
    record = Record(subject.name, target, said.as_json(), rules, passed_on, undecided, types, words, extra)
    return record, name, said


def _made(error: tp.PlacementError | PatternError) -> tuple[str, ...]:
    """The rules that refuse a launch as it is made."""
    if isinstance(error, PatternError):
        return ("bad-pattern",)
    return tuple(dict.fromkeys(item.rule for item in error.diagnostics))


def _checked(module: Module, target: str) -> tuple[tuple[str, ...], tuple[str, ...], str, str]:
    try:
        report = tp.check(module.run, *module.args, target=target)
    except PatternError as error:
        return _made(error), (), "", str(error)
    except Exception as error:
        return (), (), answers.words(error), ""
    refuted = [item for item in report.diagnostics if item.verdict == "refuted"]
    undecided = tuple(dict.fromkeys(item.rule for item in report.diagnostics if item.verdict == "open"))
    words = f"line {refuted[0].line}: {refuted[0].message}" if refuted else ""
    return tuple(dict.fromkeys(item.rule for item in refuted)), undecided, "", words


def _elsewhere(module: Module) -> dict[str, str]:
    """An original on its other chips: empty where all is well."""
    found = {}
    for target in module.targets[1:]:
        rules = _checked(module, target)[0]
        if rules:
            found[f"check {target}"] = " ".join(rules)
        try:
            tp.compile(module.run, *module.args, target=target)
        except tp.CompileError as error:
            found[f"compiler {target}"] = f"{error.kind}: {error.reason}"
    return found


def _typed(file: Path, folder: Path, source: str) -> tuple[str, ...]:
    """The codes of mypy's errors, with the plugin."""
    file.write_text(source)
    config = folder / "mypy.ini"
    config.write_text(_CONFIG)
    cache = Path(tempfile.gettempdir()) / "typedpallas-mutants-mypy"
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", str(cache), str(file)]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    output = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment).stdout
    return tuple(dict.fromkeys(match["code"] for match in _CODE.finditer(output)))


__all__ = ["NOT_REACHED", "Record", "judge"]
