"""Races of plain calls at level 1, and what the trace says of the same calls."""

import os
import re
import shutil

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import harness
import jax
import jax.numpy as jnp
import pytest
import races

import typedpallas as tp

_EXPECTED = re.compile(r"# E: (\S+)$")
_X = jax.ShapeDtypeStruct((32, 128), jnp.float32)


def test_races_where_programs_share_a_block(tmp_path):
    shutil.copy(harness.HERE / "races.py", tmp_path)
    config = shutil.copy(harness.CONFIG, tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.typedpallas]\ntargets = ["tpu-v5e", "tpu-v5p", "h100"]\n')
    done = harness.mypy([tmp_path / "races.py"], config=config, cwd=tmp_path)
    errors = [m for m in harness.messages(done.stdout) if m.kind == "error"]
    lines = enumerate((harness.HERE / "races.py").read_text().splitlines(), start=1)
    expected = {(number, f"(on {match[1]})") for number, line in lines if (match := _EXPECTED.search(line))}
    assert {(m.line, m.text[m.text.index("(on ") :]) for m in errors} == expected, done.stdout
    assert {m.code for m in errors} == {"write-race"}


@pytest.mark.parametrize(
    ("function", "target", "rules"),
    [
        (races.race_on_gpu, "h100", {"write-race"}),
        (races.race_on_gpu, "tpu-v5p", set()),
        (races.race_on_two_cores, "tpu-v5p", {"write-race"}),
        (races.race_on_two_cores, "tpu-v5e", set()),
        (races.right, "tpu-v5p", set()),
    ],
)
def test_the_trace_agrees(function, target, rules):
    report = tp.check(function, _X, target=target)
    assert {d.rule for d in report.diagnostics if d.verdict == "refuted" and d.rule == "write-race"} == rules
