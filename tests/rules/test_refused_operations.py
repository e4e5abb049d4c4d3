"""The table of refused operations: its form, what the rules make of it, and a sample asked anew."""

import random
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import typedpallas as tp
from benchmarks import operations
from typedpallas import chips
from typedpallas.rules import _refused

RULES = ("dtype-not-on-target", "primitive-not-on-target")


def _found(function: Any, *dtypes: Any, target: str = "tpu-v5e") -> set[tuple[str, str]]:
    args = [jax.ShapeDtypeStruct((32, 128), dtype) for dtype in dtypes]

    def kernel(*refs: Any) -> None:
        refs[-1][...] = function(*(ref[...] for ref in refs[:-1]))

    run = pl.pallas_call(kernel, out_shape=jax.eval_shape(function, *args))
    return {
        (item.rule, item.verdict) for item in tp.check(run, *args, target=target).diagnostics if item.rule in RULES
    }


def test_the_table_says_what_it_is_and_reads_back() -> None:
    table = _refused.table()
    assert set(table) <= set(tp.targets())
    assert {name for name in tp.targets() if name.startswith("tpu")} | {"a100", "h100", "b200"} <= set(table)
    assert all(words for rows in table.values() for words in rows.values())
    assert _refused.parsed(_refused.written(table)) == table


def test_a_narrow_type_is_refused_and_a_constant_of_it_is_not() -> None:
    assert _found(lambda x: x + x, jnp.int8) == {("dtype-not-on-target", "refuted")}
    constant = jnp.int8(3)

    def folded(x: Any) -> Any:
        return x.astype(jnp.int32) + (jnp.full((32, 128), constant) + jnp.int8(4)).astype(jnp.int32)

    assert _found(folded, jnp.int8) == set()


def test_what_no_type_has_is_the_operation_and_what_a_wide_type_has_is_the_type() -> None:
    def looked_up(x: Any, rows: Any) -> Any:
        return jnp.take_along_axis(x, rows, 0)

    assert _found(looked_up, jnp.float32, jnp.int32, target="tpu-v4") == {("primitive-not-on-target", "refuted")}
    assert _found(lambda x, y: x / y, jnp.bfloat16, jnp.bfloat16, target="h100") == {
        ("dtype-not-on-target", "refuted")
    }
    assert _found(lambda x, y: x / y, jnp.float32, jnp.float32, target="h100") == set()


def test_a_gpu_that_was_not_asked_gets_what_all_the_others_refuse() -> None:
    assert _found(lambda x, y: x / y, jnp.bfloat16, jnp.bfloat16, target="l4") == {("dtype-not-on-target", "refuted")}


def test_with_another_jax_the_verdict_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_refused, "_installed", lambda: "0.0.1")
    assert _found(lambda x: x + x, jnp.int8) == {("dtype-not-on-target", "open")}


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v4", "tpu-v5e", "h100"])
def test_a_sample_asked_anew_answers_as_the_table(target: str) -> None:
    chip = chips.get(target)
    asked = operations.Asked(chip)
    if not asked.answers():
        pytest.skip("no compiler for it here")
    rows = _refused.table()[target]
    for operation, dtype in random.Random(target).sample(operations.questions(), 6):
        said = asked.refused(operation, dtype)
        names = {operations.key(form, asked.backend) for form in operations.forms(operation, dtype, chip)}
        assert (said is not None) == bool(names & set(rows)), (operation.primitive, dtype, said)
