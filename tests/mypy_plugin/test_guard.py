"""A hook that fails leaves mypy's own answer, and is raised where somebody asks for it."""

import harness
import pytest

_FAILING_PLUGIN = """
from typedpallas_mypy.handlers import blocks, functions, refs
from typedpallas_mypy import transfer

def evaluate(*arguments):
    raise RuntimeError("out of order")

transfer.evaluate = evaluate

from typedpallas_mypy.plugin import plugin
"""

_KERNEL = """
from typing import reveal_type
import jax.numpy as jnp
from typedpallas import Dim, In, Out, f32
from typedpallas.tpu import VMEM

def kernel[N: Dim](x: In[VMEM, f32, N], o: Out[VMEM, f32, N]) -> None:
    o[...] = jnp.exp(x[...])
    reveal_type(jnp.exp(x[...]))
"""


@pytest.fixture(scope="module")
def broken():
    """A folder that stays: mypy's cache belongs to the path of a plugin."""
    folder = harness.CACHE / "broken"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "broken_plugin.py").write_text(_FAILING_PLUGIN)
    (folder / "kernel.py").write_text(_KERNEL)
    (folder / "mypy.ini").write_text("[mypy]\nplugins = broken_plugin.py\nallow_redefinition = True\n")
    return folder


def _run(folder, debug):
    return harness.mypy(
        ["kernel.py"],
        config=folder / "mypy.ini",
        cache=folder / "cache",
        cwd=folder,
        environment={"TYPEDPALLAS_MYPY_DEBUG": debug},
    )


def test_failure_is_open(broken):
    done = _run(broken, "")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "INTERNAL ERROR" not in done.stdout + done.stderr
    assert 'Revealed type is "jax._src.basearray.Array"' in done.stdout


def test_failure_is_raised_on_request(broken):
    done = _run(broken, "1")
    assert done.returncode == 2
    assert "INTERNAL ERROR" in done.stdout + done.stderr
