"""Which chips hold which kernel: the checker says it, and the compiler, asked for every chip, agrees."""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import pytest

import typedpallas as tp
from benchmarks import ledger
from benchmarks.real_kernels.judge import described
from benchmarks.tpu_kernels import CHIPS, FLOATS_ALONE, KERNELS
from typedpallas import compilers
from typedpallas.compilers.ambient import target_context
from typedpallas.launching import checks

COVERED = {name for name in KERNELS if f"{name}, gradients" in KERNELS}
"""Forward kernels that the gradients run too."""
_SIZES = [100, 0, 28, 500, 1, 127, 128, 140]
TABLES = {
    "grouped matmul": {2: _SIZES},
    "grouped matmul, gradients": {2: _SIZES},
    "ragged paged attention": {4: [100, 0, 200, 40, 1, 17, 256, 64], 5: [0, 50, 50, 51, 91, 92, 92, 192, 250]},
}
"""Of arguments, by their place: what some kernels' visits hang on."""


@pytest.fixture(autouse=True, scope="module")
def no_process_left() -> Iterator[None]:
    yield
    compilers.shutdown()


@pytest.mark.compiler
@pytest.mark.parametrize("target", CHIPS)
@pytest.mark.parametrize("name", [name for name in KERNELS if name not in COVERED])
def test_where_kernels_are_taken(name: str, target: str) -> None:
    kernel = KERNELS[name]
    arrays = kernel.on(target)
    try:
        if target in kernel.targets:
            tp.compile(kernel.ours, *arrays, target=target)
            with described(target), checks.left_to_the_compiler():
                outside = [row for row in ledger.rows(name, kernel.ours, arrays, target) if not row.inside]
            assert not outside, "what the kernel takes of VMEM was not foretold"
            return
        with pytest.raises(tp.PlacementError, match=kernel.reason):
            tp.compile(kernel.ours, *arrays, target=target)
    except tp.CompileError as error:
        if error.kind == "unavailable":
            pytest.skip(str(error))
        raise


@pytest.mark.parametrize("target", ["tpu-v3", "tpu-v4", "tpu-7x"])
@pytest.mark.parametrize("name", [name for name in KERNELS if name not in COVERED])
def test_nothing_is_found_in_them(name: str, target: str) -> None:
    """With the tables at hand that say which blocks are visited; without them, whether all are stays open."""
    kernel = KERNELS[name]
    if target not in kernel.targets:
        pytest.skip("not for this chip")
    arrays = kernel.on(target)
    tables = {place: jnp.asarray(values, jnp.int32) for place, values in TABLES.get(name, {}).items()}
    given = [tables.get(place, array) for place, array in enumerate(arrays)]
    assert not tp.check(kernel.ours, *given, target=target).diagnostics
    report = tp.check(kernel.ours, *arrays, target=target)
    assert report.ok
    assert {item.rule for item in report.diagnostics} <= ({"block-never-written"} if tables else set())


def test_each_mistake_is_told_once() -> None:
    """A loop that is written out makes the same copy many times."""
    kernel = KERNELS["ragged paged attention"]
    with pytest.raises(tp.PlacementError) as refused, target_context("tpu-v3"):
        jax.make_jaxpr(functools.partial(kernel.ours, by_grid=False))(*kernel.on("tpu-v3"))
    found = refused.value.diagnostics
    assert len(found) == len({(item.line, item.message) for item in found})


def test_every_kernel_has_a_chip_and_a_reason_for_the_others() -> None:
    for kernel in KERNELS.values():
        assert kernel.targets
        assert (set(kernel.targets) == set(CHIPS)) == (not kernel.reason)
    assert KERNELS["matmul"].on(FLOATS_ALONE[0])[0].dtype == jnp.float32
