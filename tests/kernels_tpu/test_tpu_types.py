"""mypy with the plugin finds nothing in the TPU kernels, and does look into them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import typedpallas

KERNELS = Path(typedpallas.__file__).parent / "kernels" / "tpu"
CACHE = Path(__file__).parent.parent.parent / ".cache" / "mypy_kernels_tpu"
"""Kept between runs: reading JAX anew takes mypy 15 seconds."""


def said(folder: Path) -> str:
    """What mypy says of the kernels as a package of a user's own."""
    (folder / "mypy.ini").write_text(
        "[mypy]\nplugins = typedpallas_mypy\nstrict = True\nuntyped_calls_exclude = jax\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(CACHE), "mykernels"]
    environment = {**os.environ, "TYPEDPALLAS_MYPY_DEBUG": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert not done.stderr, done.stderr
    return done.stdout


def test_the_plugin_finds_nothing(tmp_path: Path) -> None:
    package = tmp_path / "mykernels"
    shutil.copytree(KERNELS, package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in package.glob("*.py"):
        file.write_text(file.read_text().replace("typedpallas.kernels.tpu", "mykernels"))
    assert said(tmp_path).startswith("Success")
    source = (package / "matmul.py").read_text()
    (package / "matmul.py").write_text(
        source.replace("acc: Scratch[VMEM, f32, BM, BN]", "acc: Scratch[VMEM, f32, BN, BM]")
    )
    assert "[shape-mismatch]" in said(tmp_path)
