"""The project's settings: which chips kernels must be legal on."""

import harness
import pytest

_KERNEL = """
from typing import Literal as L
from typedpallas import In, Out, Ref, f32
from typedpallas import tpu, gpu
import typedpallas as tp

def kernel(
    x: In[tp.BLOCK, f32, L[8], L[128]],
    o: Out[tp.BLOCK, f32, L[8], L[128]],
    g: Ref[gpu.SMEM, f32, L[8]],
) -> None:
    o[0, 0] = x[0, 0]
    g[0] = x[0, 0]
"""


def _said(tmp_path, targets):
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.mypy]\nplugins = ["typedpallas_mypy"]\n[tool.typedpallas]\ntargets = {targets}\n'
    )
    (tmp_path / "kernel.py").write_text(_KERNEL)
    cache = harness.CACHE / "settings"
    return harness.mypy(["kernel.py"], config=tmp_path / "pyproject.toml", cache=cache, cwd=tmp_path)


def test_targets_are_judged_and_named(tmp_path):
    """A store that only a TPU refuses: silent without a TPU among the targets, named after them with."""
    assert _said(tmp_path, "[]").returncode == 0
    assert _said(tmp_path, '["h100"]').returncode == 0
    said = harness.messages(_said(tmp_path, '["tpu-v5e", "tpu-v6e", "h100"]').stdout)
    errors = [m for m in said if m.kind == "error"]
    assert [(m.line, m.code) for m in errors] == [(12, "scalar-store-to-vmem")]
    assert errors[0].text.endswith("(on tpu-v5e, tpu-v6e)")


@pytest.mark.parametrize("targets", ['["tpu-v55"]', '"tpu-v5e"', "[1]"])
def test_nonsense_is_refused(tmp_path, targets):
    done = _said(tmp_path, targets)
    assert done.returncode not in (0, 1)
    assert "[tool.typedpallas]" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_reminder_of_unchecked_bodies(tmp_path):
    """Without `check_untyped_defs` the bodies under `@pl.when` go unchecked: said once, as a note."""
    said = harness.messages(_said(tmp_path, "[]").stdout)
    assert [(m.kind, m.line) for m in said if "check_untyped_defs" in m.text] == [("note", 8)]
