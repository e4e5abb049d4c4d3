"""Errors underline the smallest thing that is wrong: the value of a store, its index, the call."""

import json

import harness
import pytest

_KERNEL = """
from typing import Literal as L
import jax.numpy as jnp
from typedpallas import Dim, In, Out, Ref, f32
from typedpallas.tpu import SMEM, VMEM

def kernel[R: Dim, N: Dim](x: In[VMEM, f32, R, N], o: Out[VMEM, f32, R, N], s: Ref[SMEM, f32, L[4]]) -> None:
    o[...] = (x[...] * 2.0).T
    s[0:2] = jnp.zeros((2,), jnp.float32)
    o[...] = x[...] + jnp.dot(x[...], x[...])
    x[0, 0, 0]
    o[...] += x[0]
"""

_SPANS = {
    8: "(x[...] * 2.0).T",
    9: "0:2",
    10: "jnp.dot(x[...], x[...])",
    11: "0, 0, 0",
}
"""What is underlined, by line; a tuple and a call start where they are written."""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    path = tmp_path_factory.mktemp("spans") / "spans.py"
    path.write_text(_KERNEL)
    done = harness.mypy(["--output", "json", path], cache=harness.CACHE)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize(("line", "text"), _SPANS.items(), ids=str)
def test_span(said, line, text):
    (error,) = [m for m in said if m["line"] == line and m["severity"] == "error"]
    source = _KERNEL.splitlines()[line - 1]
    assert source.index(text.lstrip("(")) - error["column"] in (0, 1)


def test_json_has_the_slug_and_the_help(said):
    (error,) = [m for m in said if m["line"] == 8 and m["severity"] == "error"]
    assert error["code"] == "shape-mismatch"
    assert error["hint"]
