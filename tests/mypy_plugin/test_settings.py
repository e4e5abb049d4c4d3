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


_OPEN = """
from typing import Any
from typing import Literal as L
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from typedpallas import Dim, In, Out, f32
from typedpallas.tpu import VMEM

def helper(x: jax.Array) -> jax.Array:
    return x

def kernel[M: Dim](x: In[VMEM, f32, M, L[128]], o: Out[VMEM, f32, M, L[128]], at: Any) -> None:
    o[...] = helper(x[...])
    o[...] = jnp.unique(x[...])
    o[...] = x[at]
    o[...] = x[...] * 2 + jnp.exp(x[...])

def run(x: jax.Array, specs: list[pl.BlockSpec]) -> Any:
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), in_specs=specs)(x)

def two(x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]], p: Out[VMEM, f32, L[8], L[128]]) -> None:
    o[...] = x[...]

def also(x: jax.Array) -> Any:
    whole = pl.BlockSpec((8, 128), lambda: (0, 0))
    out = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    return pl.pallas_call(two, out_shape=[out, out], in_specs=[whole], out_specs=[whole, whole])(x)
"""


def _opened(tmp_path, setting, environment=None):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.mypy]\nplugins = ["typedpallas_mypy"]\ncheck_untyped_defs = true\n[tool.typedpallas]\n' + setting
    )
    (tmp_path / "kernel.py").write_text(_OPEN)
    cache = harness.CACHE / "settings"
    done = harness.mypy(
        ["kernel.py"], config=tmp_path / "pyproject.toml", cache=cache, cwd=tmp_path, environment=environment
    )
    return done.returncode, [(m.line, m.text) for m in harness.messages(done.stdout)]


@pytest.mark.parametrize(
    ("setting", "environment"), [("show-open = true", None), ("", {"TYPEDPALLAS_SHOW_OPEN": "1"})]
)
def test_what_is_open_is_listed_on_request(tmp_path, setting, environment):
    """As notes: mypy still succeeds. Nothing is said of what is decided."""
    code, said = _opened(tmp_path, setting, environment)
    assert code == 0
    assert said == [
        (14, "open: `helper` gives a plain `jax.Array`; annotated `Block[...]` it keeps its shape"),
        (15, "open: what `jnp.unique` gives for f32[M, 128] is not known for all sizes"),
        (16, "open: what this index selects from `x` is not known for all sizes"),
        (20, "open: the specs of this call of `kernel` are not there to read"),
        (
            22,
            "open: part of `p` is never stored: expected a store to every element of each block, found none in all "
            "of `two`; store to `p`, or leave it out of the kernel and the launch; it is right if nobody uses that "
            "result",
        ),
    ]


def test_it_is_not_listed_otherwise(tmp_path):
    assert _opened(tmp_path, "show-open = false") == (0, [])


def test_show_open_is_true_or_false(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.mypy]\nplugins = ["typedpallas_mypy"]\n[tool.typedpallas]\nshow-open = "yes"\n'
    )
    (tmp_path / "kernel.py").write_text("x = 1\n")
    done = harness.mypy(
        ["kernel.py"], config=tmp_path / "pyproject.toml", cache=harness.CACHE / "settings", cwd=tmp_path
    )
    assert done.returncode not in (0, 1)
    assert "show-open: expected true or false, found 'yes'" in done.stdout + done.stderr
