"""Which chips hold which kernel: the checker says it, and the compiler, asked for every chip, agrees."""

from collections.abc import Iterator

import jax.numpy as jnp
import pytest

import typedpallas as tp
from benchmarks.tpu_kernels import CHIPS, FLOATS_ALONE, KERNELS
from typedpallas import compilers

COVERED = {name for name in KERNELS if f"{name}, gradients" in KERNELS}
"""Forward kernels that the gradients run too."""
SIZES = jnp.asarray([100, 0, 28, 500, 1, 127, 128, 140], jnp.int32)


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
    """With the sizes of groups at hand; without them, whether they make every block visited stays open."""
    kernel = KERNELS[name]
    if target not in kernel.targets:
        pytest.skip("not for this chip")
    arrays = kernel.on(target)
    given = [SIZES if name.startswith("grouped") and a.dtype == jnp.int32 else a for a in arrays]
    assert not tp.check(kernel.ours, *given, target=target).diagnostics
    assert tp.check(kernel.ours, *arrays, target=target).ok


def test_every_kernel_has_a_chip_and_a_reason_for_the_others() -> None:
    for kernel in KERNELS.values():
        assert kernel.targets
        assert (set(kernel.targets) == set(CHIPS)) == (not kernel.reason)
    assert KERNELS["matmul"].on(FLOATS_ALONE[0])[0].dtype == jnp.float32
