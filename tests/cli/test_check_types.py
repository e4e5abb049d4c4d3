"""``typedpallas check --level types``: mypy under the project's settings, and what it leaves open."""

import json
from pathlib import Path

import pytest

_CACHE = Path(__file__).parent.parent.parent / ".cache" / "mypy_cli"
"""Kept between runs: reading jax anew takes mypy 15 seconds."""

_KERNEL = """
from typing import Literal as L
import jax
from typedpallas import Dim, In, Out, f32
from typedpallas.tpu import HBM, VMEM

def helper(x: jax.Array) -> jax.Array:
    return x

def kernel[M: Dim](x: In[VMEM, f32, M, L[128]], h: In[HBM, f32, M, L[128]], o: Out[VMEM, f32, M, L[128]]) -> None:
    o[...] = helper(x[...])
    o[...] = h[...]
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "kernel.py").write_text(_KERNEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MYPY_CACHE_DIR", str(_CACHE))
    return tmp_path


def test_without_a_configuration_the_plugin_is_used(cli, project):
    done = cli("check", "kernel.py", "--level", "types")
    assert done.code == 1
    assert "kernel.py:12:14: error: cannot load from `h`" in done.out and "[load-from-hbm]" in done.out
    assert "helper" not in done.out
    assert done.out.strip().endswith("1 error")


def test_what_is_open_is_listed_on_request(cli, project):
    done = cli("check", "kernel.py", "--level", "types", "--show-open", "--format", "json")
    said = json.loads(done.out)
    assert [(item["rule"], item["verdict"], item["line"]) for item in said] == [
        ("unknown", "open", 11),
        ("load-from-hbm", "refuted", 12),
    ]
    assert said[0]["message"] == "`helper` gives a plain `jax.Array`; annotated `Block[...]` it keeps its shape"


def test_the_project_s_own_configuration_is_kept(cli, project):
    """One that names the plugin, here with an error code switched off."""
    (project / "pyproject.toml").write_text(
        '[tool.mypy]\nplugins = ["typedpallas_mypy"]\ndisable_error_code = ["load-from-hbm"]\n'
    )
    done = cli("check", "kernel.py", "--level", "types")
    assert (done.code, done.out.strip()) == (0, "clean")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.py", "--level", "types"), "there is no `missing.py`"),
        (("kernel.py", "--level", "types", "--args", "f32[8]"), "it takes no --args"),
        (("kernel.py", "--show-open"), "--show-open is for --level types"),
        (("kernel.py", "--level", "types", "--target", "tpu-v55"), "tpu-v5"),
    ],
)
def test_what_means_nothing_is_said(cli, project, arguments, words):
    done = cli("check", *arguments)
    assert done.code == 2
    assert words in done.err


def test_a_mypy_that_cannot_run_is_no_verdict(cli, project):
    (project / "mypy.ini").write_text("[mypy]\nplugins = typedpallas_mypy, no_such_plugin\n")
    done = cli("check", "kernel.py", "--level", "types")
    assert done.code == 2
    assert "no_such_plugin" in done.err
