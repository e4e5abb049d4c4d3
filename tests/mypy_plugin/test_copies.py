"""Copies and semaphores at level 1: errors where the cases say, the same as the trace's, and none on what runs."""

import importlib.util
import os
import re
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import copy_bodies
import harness
import jax
import jax.numpy as jnp
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp

FOLDER = harness.HERE / "copies"
_EXPECTED = re.compile(r"# E: (.+)$")


@pytest.fixture(scope="module")
def said() -> list[harness.Message]:
    """What mypy says of all the cases."""
    done = harness.mypy(sorted(FOLDER.glob("*.py")))
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [m for m in harness.messages(done.stdout) if m.kind == "error"]


@pytest.fixture
def module(request, monkeypatch):
    """A case as a module, beside its helpers."""
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"copies_{request.param}", FOLDER / f"{request.param}.py")
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, made)
    spec.loader.exec_module(made)
    return made


def _expected(name):
    lines = enumerate((FOLDER / f"{name}.py").read_text().splitlines(), start=1)
    return {(number, match[1]) for number, line in lines if (match := _EXPECTED.search(line))}


@pytest.mark.parametrize("name", [path.stem for path in sorted(FOLDER.glob("*.py"))])
def test_errors_where_the_case_says(name, said):
    assert {(m.line, m.code) for m in said if m.file == f"{name}.py"} == _expected(name)


@pytest.mark.parametrize("module", ["right"], indirect=True)
def test_what_is_right_runs(module):
    module.run()


@pytest.mark.parametrize("module", ["wrong", "right", "plain"], indirect=True)
def test_the_trace_says_the_same_of_each_kernel(module):
    report = tp.check(module.results, jax.ShapeDtypeStruct((16, 128), jnp.float32), target="tpu-v5e")
    found = {(item.kernel, item.rule) for item in report.diagnostics if item.verdict == "refuted"}
    name = module.__name__.removeprefix("copies_")
    assert found == {(_kernel(name, line), rule) for line, rule in _expected(name)}


def test_bodies_at_random_are_refused_only_where_the_trace_refuses_them(tmp_path):
    """The whole argument of `body_paths`: what holds on all paths holds in life."""
    count, path = 30, tmp_path / "drawn.py"
    path.write_text(copy_bodies.module(11, count))
    errors = [m for m in harness.messages(harness.mypy([path], cwd=tmp_path).stdout) if m.kind == "error"]
    refused = {_kernel_above(path, m.line) for m in errors}
    spec = importlib.util.spec_from_file_location("drawn", path)
    drawn = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawn)
    x = jax.ShapeDtypeStruct((16, 128), jnp.float32)
    for name in sorted(refused):
        report = tp.check(getattr(drawn, f"run_{name}"), x, target="tpu-v5e")
        assert any(item.verdict == "refuted" for item in report.diagnostics), name
    assert {m.code for m in errors} <= COPIES
    assert len(refused) > count / 5, "the plugin saw next to nothing"


COPIES = {"copy-not-waited", "copy-waited-twice", "read-before-wait", "shared-semaphore"}
GPU_CALLS = {
    "copy_gmem_to_smem": [("smem", "other", "arrived"), ("x", "o", "arrived")],
    "copy_smem_to_gmem": [("x", "o"), ("smem", "other")],
    "async_load_tmem": [("smem",)],
    "async_store_tmem": [("smem", "value")],
    "async_copy_smem_to_tmem": [("smem", "other")],
}


@pytest.mark.parametrize(("name", "names"), [(name, names) for name, calls in GPU_CALLS.items() for names in calls])
def test_jax_refuses_what_lies_elsewhere_on_a_gpu(name, names):
    """Source of the spaces that level 1 asks for: JAX refuses the others while it traces."""

    def kernel(x, o, smem, other, arrived):
        given = {"x": x, "o": o, "smem": smem, "other": other, "arrived": arrived}
        getattr(plgpu, name)(*(other[...] if argument == "value" else given[argument] for argument in names))

    block = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    scratch = [plgpu.SMEM((64, 64), jnp.float32), plgpu.SMEM((64, 64), jnp.float32), plgpu.Barrier()]
    with pytest.raises(ValueError, match=r"MEM"):
        jax.eval_shape(plgpu.kernel(kernel, out_type=block, scratch_types=scratch), block)


def _kernel(name, line):
    return _kernel_above(FOLDER / f"{name}.py", line)


def _kernel_above(path, line):
    """The kernel that a line stands in."""
    above = path.read_text().splitlines()[:line]
    return re.findall(r"^def (\w+)", "\n".join(above), re.MULTILINE)[-1]
