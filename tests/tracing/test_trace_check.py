"""`tp.check`: targets, places, JAX's own refusals, and errors that are none of its business."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable
from pathlib import Path
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import In, Out, f32
from typedpallas.tpu import VMEM
from typedpallas.tracing import check_launch, jaxapi

HERE = Path(__file__)
X = jax.ShapeDtypeStruct((8, 128), jnp.float32)


def _line(marker: str) -> int:
    """The line of this file that carries a mark."""
    lines = HERE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if line.endswith(f"# {marker}"))


def reads_anywhere(x, o):
    o[...] = x[...]  # reads


def _reading(space: Any) -> Callable[..., Any]:
    return pl.pallas_call(reads_anywhere, out_shape=X, in_specs=[pl.BlockSpec(memory_space=space)])


def test_a_finding_has_its_line_and_text() -> None:
    report = tp.check(_reading(pltpu.HBM), X)
    (found,) = report.diagnostics
    assert not report.ok
    assert (found.rule, found.verdict, found.level, found.target) == ("load-from-hbm", "refuted", "trace", None)
    assert Path(found.file) == HERE and found.line == _line("reads")
    assert found.kernel == "reads_anywhere" and found.help
    assert str(report).splitlines()[0].startswith(f"{found.file}:{found.line}:{found.column}: error: cannot load")
    assert str(report).splitlines()[-1] == "checked `reads_anywhere`: 1 refuted, 0 open"


def test_what_needs_a_machine_is_said_of_that_machine_alone() -> None:
    """`ANY` is out of a TPU kernel's reach, and plain global memory to Triton."""
    assert tp.check(_reading(pl.ANY), X).ok
    report = tp.check(_reading(pl.ANY), X, target=("tpu-v5e", "h100"))
    assert [(d.rule, d.target) for d in report.diagnostics] == [("load-from-hbm", "tpu-v5e")]
    assert report.targets == ("tpu-v5e", "h100")
    assert len(report.kernels) == 2


def test_triton_ignores_the_spaces_of_operands() -> None:
    assert tp.check(_reading(pltpu.HBM), X, target="h100").ok
    assert tp.check(_reading(pltpu.VMEM), X, target="h100").ok


def test_what_holds_everywhere_is_said_once_for_many_targets() -> None:
    report = tp.check(_reading(pltpu.HBM), X, target=("tpu-v5e", "tpu-v6e"))
    assert [(d.rule, d.target) for d in report.diagnostics] == [("load-from-hbm", None)]


def test_aliases_and_unknown_targets() -> None:
    assert tp.check(_reading(pl.ANY), X, target="v5e").targets == ("tpu-v5e",)
    with pytest.raises(tp.UnknownTarget, match="tpu-v5e"):
        tp.check(_reading(pl.ANY), X, target="v99")


def test_a_clean_report_says_what_it_checked() -> None:
    report = tp.check(_reading(pltpu.VMEM), X, target="tpu-v5e")
    assert str(report) == "checked `reads_anywhere` for tpu-v5e: clean"
    assert str(tp.check(lambda x: x, X)) == "checked no kernel: clean"


def _launched(kernel: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return pl.pallas_call(kernel, out_shape=X, **options)


def _stores_bf16(x, o):
    o[...] = x[...].astype(jnp.bfloat16)  # dtype


def _stores_half(x, o):
    o[...] = x[0:4]  # shape


def _adds_seven(x, o):
    o[...] = x[...] + jnp.zeros((7, 1), jnp.float32)  # operands


def _indexes_too_much(x, o):
    o[...] = x[0, 0, :]  # rank


def _wrong_product(x, o):
    o[...] = jnp.dot(x[...], x[...])  # product


def _narrowing_loop(x, o):
    o[...] = jax.lax.fori_loop(0, 3, lambda _, c: c.astype(jnp.bfloat16), x[...])  # carry


def _blocks(index: Any) -> dict[str, Any]:
    return {
        "grid": (4,),
        "in_specs": [pl.BlockSpec((2, 128), index)],
        "out_specs": pl.BlockSpec((2, 128), lambda i: (i, 0)),
    }


def _plain(x, o):
    o[...] = x[...]


TOO_FEW = _blocks(lambda i: (i,))  # results
NO_PARAMETERS = _blocks(lambda: (0, 0))  # parameters
FLOATS = _blocks(lambda i: (i / 2, 0))  # floats

REFUSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "dtype": (lambda: _launched(_stores_bf16), "dtype-mismatch"),
    "shape": (lambda: _launched(_stores_half), "shape-mismatch"),
    "operands": (lambda: _launched(_adds_seven), "shape-mismatch"),
    "rank": (lambda: _launched(_indexes_too_much), "rank-mismatch"),
    "product": (lambda: _launched(_wrong_product), "shape-mismatch"),
    "carry": (lambda: _launched(_narrowing_loop), "dtype-mismatch"),
    "results": (lambda: _launched(_plain, **TOO_FEW), "index-map-rank"),
    "parameters": (lambda: _launched(_plain, **NO_PARAMETERS), "index-map-arity"),
    "floats": (lambda: _launched(_plain, **FLOATS), "index-dtype"),
}


@pytest.mark.parametrize("marker", REFUSALS)
def test_a_refusal_of_jax_becomes_the_rules_diagnostic(marker: str) -> None:
    make, rule = REFUSALS[marker]
    report = tp.check(make(), X)
    (found,) = report.diagnostics
    assert (found.rule, found.verdict, found.line) == (rule, "refuted", _line(marker)), str(report)
    assert any(note.startswith("JAX says: ") for note in found.notes)
    assert not report.ok and found.help


def test_a_store_refused_by_jax_names_the_ref() -> None:
    (found,) = tp.check(_launched(_stores_bf16), X).diagnostics
    assert found.message == "cannot store to `o`: expected `f32`, found `bf16`"


def _mma_of_two_types(
    x: tp.In[tp.BLOCK, tp.f32, L[128], L[128]], o: tp.Out[tp.BLOCK, tp.f32, L[128], L[128]]
) -> None:
    o[...] = tp.dot(x, x[...].astype(jnp.bfloat16))


def _mma_that_needs_a_transpose(
    x: tp.In[tp.BLOCK, tp.f32, L[64], L[128]], o: tp.Out[tp.BLOCK, tp.f32, L[64], L[64]]
) -> None:
    o[...] = tp.dot(x, x)


@pytest.mark.parametrize(
    ("kernel", "rows", "rule", "found"),
    [
        (_mma_of_two_types, 128, "dtype-mismatch", "`f32`, `bf16`"),
        (_mma_that_needs_a_transpose, 64, "shape-mismatch", "`(64, 128)`, `(64, 128)`"),
    ],
)
def test_a_refusal_of_a_portable_product_is_the_rules_too(kernel: Any, rows: int, rule: str, found: str) -> None:
    launch = tp.launch(kernel, f"{rows} 128 -> {rows} {rows}", grid="")
    (item,) = tp.check(launch, jax.ShapeDtypeStruct((rows, 128), jnp.float32), target="tpu-v5e").diagnostics
    assert (item.rule, item.verdict, item.found) == (rule, "refuted", found)
    assert any(note.startswith("typedpallas says: tp.dot: ") for note in item.notes)


def test_a_copy_to_shared_memory_of_another_shape_names_both_buffers() -> None:
    def kernel(x_gmem: Any, o_gmem: Any, tile: Any, arrived: Any) -> None:
        plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(0, 4), :], tile, arrived)

    run = plgpu.kernel(kernel, out_type=X, scratch_types=[plgpu.SMEM((8, 128), jnp.float32), plgpu.Barrier()])
    (item,) = tp.check(run, X, target="h100").diagnostics
    assert (item.rule, item.verdict) == ("copy-shape-mismatch", "refuted")
    assert item.message == ("copy to `tile` moves another shape: expected `[8, 128]`, found `[4, 128]` from `x_gmem`")


def _fails_in_python(x, o):
    o[...] = x[...] * {}["missing"]


def test_errors_that_are_not_about_kernels_pass_unchanged() -> None:
    with pytest.raises(KeyError, match="missing"):
        tp.check(_launched(_fails_in_python), X)
    with pytest.raises(TypeError, match="incompatible shapes for broadcasting"):
        tp.check(lambda x: x + jnp.zeros((7, 1)), X)


def _typed(x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None:
    x[...] = x[...] * 2.0  # stores
    o[...] = x[...]


def _untyped(x, o):
    x[...] = x[...] * 2.0
    o[...] = x[...]


def test_directions_come_from_the_kernels_annotations() -> None:
    (found,) = tp.check(_launched(_typed), X, target="tpu-v5e").diagnostics
    assert (found.rule, found.line) == ("store-to-input", _line("stores"))


def test_a_kernel_that_declares_no_direction_may_use_its_input_as_room() -> None:
    assert tp.check(_launched(_untyped), X, target="tpu-v5e").ok


def test_a_traced_launch_is_judged_without_tracing_again() -> None:
    jaxpr = jaxapi.trace(_reading(pltpu.HBM), (X,))
    assert [d.rule for d in check_launch(jaxpr, None)] == ["load-from-hbm"]
    assert check_launch(jaxapi.trace(_reading(pltpu.VMEM), (X,)), tp.chips.get("tpu-v5e")) == ()


def test_a_kernel_for_the_other_machine_is_one_finding() -> None:
    kernel = _launched(_plain, compiler_params=pltpu.CompilerParams(), scratch_shapes=[])
    assert [d.rule for d in tp.check(kernel, X, target="h100").diagnostics] == ["backend-not-on-target"]
    assert tp.check(kernel, X, target="tpu-v5e").ok
