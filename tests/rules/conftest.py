"""The examples on disk, once, and mypy's verdict on all of them, once."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import rule_examples

CACHE = Path(__file__).parents[2] / ".cache" / "rule_examples"
"""Kept between runs: reading JAX anew takes mypy 15 seconds."""
CONFIG = """
[mypy]
plugins = typedpallas_mypy
check_untyped_defs = True
allow_redefinition = True
cache_dir = {cache}
"""
_LINE = re.compile(r"^(?P<file>[^:]+):\d+: error: .*\[(?P<code>[a-z0-9-]+)\]$")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where every example is a file."""
    made = tmp_path_factory.mktemp("examples")
    rule_examples.write_all(made)
    return made


@pytest.fixture(scope="session")
def mypy_says(folder: Path) -> dict[str, list[str]]:
    """The error codes that mypy with the plugin gives, by file."""
    config = folder / "mypy.ini"
    config.write_text(CONFIG.format(cache=CACHE))
    names = [
        rule_examples.file_name(rule, side)
        for rule in rule_examples.RULES
        if "types" in rule.example.levels
        for side in ("bad", "good")
    ]
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    codes: dict[str, list[str]] = {name: [] for name in names}
    for line in done.stdout.splitlines():
        found = _LINE.match(line)
        if found:
            codes[Path(found["file"]).name].append(found["code"])
    return codes


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain ``pl.pallas_call`` runs in interpret mode, Mosaic GPU kernels in their own."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import mosaic_gpu as plgpu

    monkeypatch.setattr(pl, "pallas_call", functools.partial(pl.pallas_call, interpret=True))
    monkeypatch.setattr(plgpu, "kernel", functools.partial(plgpu.kernel, interpret=plgpu.InterpretGPUParams()))


@pytest.fixture(scope="session", autouse=True)
def no_compiler_left() -> Iterator[None]:
    """End the compilers' processes with the last test."""
    yield
    from typedpallas import compilers

    compilers.shutdown()
