"""The benchmark of levels: it finds a contradiction where there is one, and none on a small sample."""

import pytest

import typedpallas as tp
from benchmarks.agreement.judge import draw
from benchmarks.levels import dims
from benchmarks.levels.checking import checked
from benchmarks.levels.emit import annotated
from benchmarks.levels.judge import Error, Judgement, Subject, traced, verdict

_FAMILIES = ("blocks", "accumulate", "slices", "copies", "matmul", "spaces")


def _subjects(seed):
    for family in _FAMILIES:
        case = draw(family, seed)
        built = case.build()
        report = tp.check(built.run, *built.avals, target="tpu-v5e")
        for style in ("literal", "generic"):
            source = annotated(case.source(), built.avals, report.kernels, style)
            assert source is not None
            yield Subject(f"{family}_{style}", style, source)


def test_the_levels_agree_on_a_sample(tmp_path):
    subjects = checked(list(_subjects(9)), "tpu-v5e", tmp_path)
    found = [verdict(s, traced(s.source, s.name, "tpu-v5e")) for s in subjects]
    assert [v.contradictions for v in found] == [()] * len(found)
    assert all(v.proved for v in found), "the recorder saw nothing"
    plain = [draw(family, 9).build() for family in _FAMILIES for _ in range(2)]
    same = [
        {d.rule for d in tp.check(b.run, *b.avals, target="tpu-v5e").diagnostics if d.verdict == "refuted"}
        for b in plain
    ]
    assert [set(v.traced) for v in found] == same, "annotations changed what a kernel does"


def test_the_levels_agree_on_slices_by_dims(tmp_path):
    subjects = checked(list(dims.subjects(range(12))), "tpu-v5e", tmp_path)
    found = [verdict(s, traced(s.source, s.name, "tpu-v5e")) for s in subjects]
    assert [v.contradictions for v in found] == [()] * len(found)
    assert {"proved", "refuted", "open"} <= {said for v in found for said in v.slices}
    assert any("unaligned-slice" in v.refuted_at for v in found)


_OUT_OF_RANGE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((8, 128), jnp.float32),)

def kernel(x, o):
    o[...] = x[...]
    o[pl.ds(4, 8), :] = x[...]

def run(x, interpret=False):
    return pl.pallas_call(kernel, out_shape=ARGS[0], interpret=interpret)(x)
"""
_RIGHT = _OUT_OF_RANGE.replace("    o[pl.ds(4, 8), :] = x[...]\n", "")


def _line(source, text):
    return next(i for i, line in enumerate(source.splitlines(), 1) if text in line)


@pytest.fixture
def refuted():
    return traced(_OUT_OF_RANGE, "planted", "tpu-v5e")


def test_a_proof_of_what_the_trace_refutes_is_a_contradiction(refuted):
    line = _line(_OUT_OF_RANGE, "pl.ds(4, 8)")
    proof = Judgement(line, "index-out-of-bounds", "proved")
    found = verdict(Subject("planted", "generic", _OUT_OF_RANGE, judgements=(proof,)), refuted)
    assert len(found.contradictions) == 1 and f"line {line}" in found.contradictions[0]


@pytest.mark.parametrize("said", ["silent", "open", "refuted"])
def test_anything_less_than_a_proof_is_none(refuted, said):
    line = _line(_OUT_OF_RANGE, "pl.ds(4, 8)")
    both = (Judgement(line, "index-out-of-bounds", "proved"), Judgement(line, "index-out-of-bounds", said))
    found = verdict(Subject("planted", "generic", _OUT_OF_RANGE, judgements=both), refuted)
    assert found.contradictions == ()


@pytest.mark.parametrize(
    ("code", "style", "count"),
    [
        ("shape-mismatch", "literal", 1),
        ("shape-mismatch", "generic", 0),
        ("arg-type", "generic", 1),
        ("unaligned-slice", "literal", 1),
        ("unaligned-slice", "generic", 1),
    ],
)
def test_an_error_on_what_the_trace_takes_is_a_contradiction(code, style, count):
    """But a kernel that is generic in its dims may be wrong for other sizes than those it was launched with.

    Starts of slices are refused where that holds for all sizes.
    """
    subject = Subject("planted", style, _RIGHT, errors=(Error(1, code, "said"),))
    assert len(verdict(subject, traced(_RIGHT, "planted", "tpu-v5e")).contradictions) == count
