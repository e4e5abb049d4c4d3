"""Launches and Pallas calls: every error and revealed type where the case says, and nothing else."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import importlib.util
import re

import harness
import jax
import jax.numpy as jnp
import pytest

from typedpallas import rules

CASES = sorted((harness.HERE / "calls").glob("*.py"))
_EXPECTED = re.compile(r"# (E|N): (.+?)(?=  # [EN]: |$)")

_SLUG = re.compile(r"\[([a-z0-9-]+)\]$")


@pytest.fixture(scope="module")
def said() -> list[harness.Message]:
    """What mypy says of every file in ``calls``."""
    done = harness.mypy(CASES)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return harness.messages(done.stdout)


def _expected(path):
    """Line, kind and text of everything that a file wants; errors end with their slug."""
    lines = enumerate(path.read_text().splitlines(), start=1)
    return sorted((number, kind, text) for number, line in lines for kind, text in _EXPECTED.findall(line))


def _found(path, said):
    own = [m for m in said if m.file == path.name]
    errors = [(m.line, "E", f"{m.text}  [{m.code}]") for m in own if m.kind == "error"]
    return sorted(errors + [(m.line, "N", m.text) for m in own if m.text.startswith("Revealed type")])


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_says_what_the_case_says(path, said):
    missing = {slug for _, _, text in _expected(path) for slug in _SLUG.findall(text)} - set(rules.all_rules())
    if missing:
        pytest.skip(f"the rule book has no {', '.join(sorted(missing))} yet")
    assert _found(path, said) == _expected(path)


def test_what_is_right_runs():
    path = harness.HERE / "calls" / "launch_runs.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.run()


def test_every_rule_of_a_launch_has_a_case():
    wanted = {match[1] for path in CASES for match in re.finditer(r"# E: .*?\[([a-z0-9-]+)\]", path.read_text())}
    own = {"bad-pattern", "wrong-arity", "wrong-block", "block-conflict", "not-a-multiple", "unknown-size"}
    assert own | {"missing-size", "wrong-space", "windowed-any", "dtype-mismatch"} <= wanted & set(rules.all_rules())


LIBRARY = """
from typing import Literal as L
import typedpallas as tp
from typedpallas import In, Multiple, Out, f32

def scale[R: Multiple[L[8]], N: tp.Dim](x: In[tp.BLOCK, f32, R, N], o: Out[tp.BLOCK, f32, R, N]) -> None: ...

scaled = tp.launch(scale, "(i R) N -> (i R) N", grid="i").bind(N=128)
"""
USER = """
from typing import Literal as L, reveal_type
from typedpallas import Array, f32
from library import scaled

def use(x: Array[f32, L[1024], L[128]]) -> None:
    reveal_type(scaled(x, R=8))
    scaled(x, R=12)
"""


def test_a_launch_is_known_in_other_modules_and_from_the_cache(tmp_path):
    (tmp_path / "library.py").write_text(LIBRARY)
    user = tmp_path / "user.py"
    outputs = []
    for text in (USER, USER + "# changed: now the library comes from the cache\n"):
        user.write_text(text)
        outputs.append(harness.mypy([user], cwd=tmp_path).stdout)
    assert outputs[0] == outputs[1]
    said = harness.messages(outputs[1])
    revealed = 'Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, Literal[1024], Literal[128]]"'
    assert revealed in [m.text for m in said]
    assert [(m.line, m.code) for m in said if m.kind == "error"] == [(8, "not-a-multiple")]


TILED = """
from typing import Literal as L
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
import typedpallas as tp
from typedpallas import Array, Dim, In, Out, f32
from typedpallas.tpu import VMEM

def double[R: Dim, N: Dim](x: In[VMEM, f32, R, N], o: Out[VMEM, f32, R, N]) -> None:
    o[...] = x[...] * 2.0

doubled = tp.launch(double, "(i R) (j N) -> (i R) (j N)", grid="i j")

def launched(x: Array[f32, L[64], L[512]]) -> None:
    doubled(x, R=8, N=128)
    doubled(x, R=8, N=512)
    doubled(x, R=8, N=64)

def called(x: jax.Array) -> None:
    pl.pallas_call(
        double,
        grid=(8, 8),
        in_specs=[pl.BlockSpec((8, 64), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 64), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((64, 512), jnp.float32),
    )(x)
"""


def test_blocks_are_held_against_the_tiles_of_the_configured_targets(tmp_path):
    (tmp_path / "tiled.py").write_text(TILED)
    config = tmp_path / "mypy.ini"
    config.write_text(harness.CONFIG.read_text())
    for targets, lines in (("", []), ('"tpu-v5e", "tpu-v6e"', [18, 18, 25])):
        (tmp_path / "pyproject.toml").write_text(f"[tool.typedpallas]\ntargets = [{targets}]\n")
        done = harness.mypy([tmp_path / "tiled.py"], config=config, cwd=tmp_path)
        errors = [m for m in harness.messages(done.stdout) if m.kind == "error"]
        assert [(m.line, m.code) for m in errors] == [(line, "unaligned-lane") for line in lines], done.stdout
        assert all("(on tpu-v5e, tpu-v6e)" in m.text for m in errors)


def test_jax_refuses_branches_that_differ_too():
    """What the cases of `lax.cond` and `lax.switch` say is refused when it is traced."""
    x = jax.ShapeDtypeStruct((8, 16), jnp.float32)
    for other in (lambda a: a.T, lambda a: a > 0, lambda a: a.astype(jnp.bfloat16)):
        with pytest.raises(TypeError):
            jax.eval_shape(lambda a, f=other: jax.lax.cond(a[0, 0] > 0, lambda a: a, f, a), x)
        with pytest.raises(TypeError):
            jax.eval_shape(lambda a, f=other: jax.lax.switch(1, [lambda a: a, f], a), x)
