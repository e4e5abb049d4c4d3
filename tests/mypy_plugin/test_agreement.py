"""The plugin's types against JAX: every public function, and expressions as people write them."""

import harness
import pytest

from benchmarks.functions import probe, report

_LEAST_KNOWN = 0.9
"""The share of array results whose shape must be known: a plugin that says nothing would agree with everything."""

_WIDTHS = {"float32": "f32", "bfloat16": "bf16", "int32": "i32", "bool": "bool_"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Each expression with what mypy revealed, and every error."""
    text, where = probe.module(probe.expressions())
    path = tmp_path_factory.mktemp("probe") / "probed.py"
    path.write_text(text)
    said = harness.messages(harness.mypy([path]).stdout)
    shown = {where[m.line]: m for m in said if m.kind == "note" and "Revealed type" in m.text}
    errors = [(where.get(m.line), m) for m in said if m.kind == "error"]
    return shown, errors


def test_no_false_alarm(answers):
    """An expression that JAX takes gets no error of ours."""
    _, errors = answers
    wrong = [(e, m.text) for e, m in errors if m.code in ("shape-mismatch", "dtype-mismatch") and probe.truth(e)]
    assert wrong == [], "\n".join(map(str, wrong))


def test_shapes_and_dtypes_agree(answers):
    shown, _ = answers
    assert len(shown) > 800
    wrong = []
    for expression, message in shown.items():
        true = probe.truth(expression)
        said = probe.revealed(message.text)
        if true is None or said is None or len(said) != len(true):
            continue
        for (shape, dtype), (true_shape, true_dtype, weak) in zip(said, true, strict=True):
            fits = shape is None or (
                len(shape) == len(true_shape) and all(a in (None, b) for a, b in zip(shape, true_shape, strict=True))
            )
            if not fits or (dtype is not None and (weak or _short(dtype) != _short(true_dtype))):
                wrong.append((expression, message.text, true))
    assert wrong == [], "\n".join(map(str, wrong))


def _short(name):
    return _WIDTHS.get(name, name.replace("uint", "u").replace("int", "i").replace("float", "f"))


def test_most_are_known(answers):
    shown, _ = answers
    arrays = {e: m for e, m in shown.items() if (true := probe.truth(e)) is not None and len(true) == 1}
    unknown = [e for e, m in arrays.items() if not _known(m)]
    assert len(unknown) <= (1 - _LEAST_KNOWN) * len(arrays), unknown


def _known(message):
    said = probe.revealed(message.text)
    return said is not None and said[0][0] is not None and None not in said[0][0]


def test_the_page_of_functions_is_what_mypy_says(answers):
    """docs/functions.md, under the version of JAX that it was made with."""
    shown, _ = answers
    found = list(report.lines({expression: message.text for expression, message in shown.items()}))
    page = (harness.HERE.parent.parent / "docs" / "functions.md").read_text()
    assert page == report.page(found), f"run `{report.COMMAND} --write`"


def test_most_functions_are_typed(answers):
    shown, _ = answers
    found = list(report.lines({expression: message.text for expression, message in shown.items()}))
    arrays = [line for line in found if line.state not in ("no array", "not asked")]
    assert len(arrays) > 400
    assert sum(line.state == "typed" for line in arrays) > 0.85 * len(arrays)
