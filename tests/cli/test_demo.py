"""The demo: what its files are for, what its numbers are held against, and all of it, once."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest

from typedpallas import chips
from typedpallas.cli import mypying, terminal
from typedpallas.cli.demo import cells, numbers, source

BROKEN = (source.folder() / "broken.py").read_text()
MISTAKES = [
    ("table[pl.ds(8, 8), :] * 3.0", "load-from-hbm"),
    ("jnp.dot(x[...], w[...])", "shape-mismatch"),
    ("x[...] = jnp.maximum", "store-to-input"),
    ("preferred_element_type", "dtype-mismatch"),
    ("doubled(x, BM=96)", "ragged-block"),
    ('parallel="i k"', "write-race"),
]


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(BROKEN.splitlines(), 1) if text in line)


def test_the_cells_cover_every_target_and_backend() -> None:
    found = cells.cells()
    assert {cell.target for cell in found} == set(chips.targets()) - {"t4"}, "no backend runs them on a T4"
    kernels = {cell.kernel for cell in found}
    assert len(kernels) == 3
    for name in chips.targets():
        for backend in cells.backends(chips.get(name)):
            assert {c.kernel for c in found if (c.target, c.backend) == (name, backend)} == kernels
    assert cells.backends(chips.get("h100")) == ("mosaic_gpu", "triton")
    assert cells.backends(chips.get("a100")) == ("triton",)


def test_wrong_numbers_are_called_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    right = numbers.Run("right", lambda: jnp.ones(4), lambda: jnp.ones(4))
    wrong = numbers.Run("wrong", lambda: jnp.ones(4), lambda: jnp.full(4, 1.1))
    for given, fine in (([right], True), ([right, wrong], False)):
        monkeypatch.setattr(numbers, "runs", lambda given=given: iter(given))
        stream = io.StringIO()
        assert numbers.show(terminal.screen(stream)) is fine
        assert ("WRONG" in stream.getvalue()) is not fine


def test_mypy_that_does_not_finish_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> list[mypying.Error]:
        raise mypying.MypyFailed("no room on the disk")

    monkeypatch.setattr(mypying, "check", fail)
    stream = io.StringIO()
    assert not source.show(terminal.screen(stream))
    assert "no room on the disk" in stream.getvalue()


def test_workers_is_a_number_of_at_least_one(cli) -> None:
    assert cli("demo", "--workers", "0").code == 2
    assert cli("demo", "--workers", "x").code == 2


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """The whole demo, once."""
    folder: Path = tmp_path_factory.mktemp("demo")
    return subprocess.run(
        [sys.executable, "-m", "typedpallas", "demo"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | {"COLUMNS": "200"},
    )


@pytest.mark.compiler
def test_the_demo_ends_well(demo: subprocess.CompletedProcess[str]) -> None:
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert demo.stderr == ""
    assert "\x1b" not in demo.stdout
    assert max(len(line) for line in demo.stdout.splitlines() if "typedpallas/cli/demo_files" not in line) <= 110


@pytest.mark.compiler
@pytest.mark.parametrize(("text", "rule"), MISTAKES, ids=[rule for _, rule in MISTAKES])
def test_the_demo_finds_each_mistake_on_its_line(
    demo: subprocess.CompletedProcess[str], text: str, rule: str
) -> None:
    number = line_of(text)
    errors = " ".join(demo.stdout.split()).split("broken.py:")
    assert any(error.startswith(f"{number}:") and f"[{rule}]" in error for error in errors), demo.stdout
    assert f"  {number} | " in demo.stdout


@pytest.mark.compiler
def test_the_demo_says_nothing_else(demo: subprocess.CompletedProcess[str]) -> None:
    assert f"broken.py: {len(MISTAKES)} errors; fixed.py, the same six kernels mended: clean" in demo.stdout


@pytest.mark.compiler
def test_the_demo_asks_every_compiler_and_runs_the_kernels(demo: subprocess.CompletedProcess[str]) -> None:
    pytest.importorskip("libtpu", reason='pip install "typedpallas[tpu]"')
    pytest.importorskip("jax_cuda13_plugin", reason='pip install "typedpallas[gpu]"')
    rows = {tuple(line.split()[:3]) for line in demo.stdout.splitlines()}
    assert {("tpu-v4", "Mosaic", "TPU"), ("b200", "Mosaic", "GPU"), ("l4", "Triton", "compiled")} <= rows
    match = re.search(r"(\d+) of (\d+) compiled", demo.stdout)
    assert match is not None
    compiled, cells = int(match[1]), int(match[2])
    assert cells * 3 // 4 < compiled < cells, "some chips are too small for one kernel, on purpose"
    assert "(1) matmul on " in demo.stdout
    assert demo.stdout.count(" right") == 4
