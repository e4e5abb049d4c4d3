"""Tracing and lowering for a chip that is not here."""

import jax
import pytest
from compile_kernels import copied_by_dma, direct_gmem, pipelined, pipelined_gpu, scaled, shape

from typedpallas.chips import GpuTarget, UnknownTarget, get, targets
from typedpallas.compilers import CompileError, lower_for
from typedpallas.compilers.ambient import current_target, no_target, target_context

TPUS = [name for name in targets() if get(name).machine == "tpu"]
GPUS = [name for name in targets() if get(name).machine == "gpu"]


@pytest.mark.parametrize("name", targets())
def test_the_current_target_is_the_one_in_the_context(name: str) -> None:
    assert current_target() is None
    with target_context(name) as target:
        assert current_target() == target == get(name)
        with target_context("h100"):
            assert current_target() == get("h100")
        with no_target():
            assert current_target() is None
        assert current_target() == target
    assert current_target() is None


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(UnknownTarget), target_context("tpu-v99"):
        pass


def test_a_jitted_function_is_traced_again_for_each_target() -> None:
    seen = []

    @jax.jit
    def fn(x: jax.Array) -> jax.Array:
        target = current_target()
        seen.append(target.name if target else None)
        return x

    for name in ("tpu-v5e", "h100", "tpu-v5e", None):
        if name is None:
            fn.trace(shape(8))
        else:
            with target_context(name):
                fn.trace(shape(8))
    assert seen == ["tpu-v5e", "h100", None]


@pytest.mark.parametrize("kernel", [scaled(), copied_by_dma, pipelined])
@pytest.mark.parametrize("name", TPUS)
def test_tpu_kernels_lower_without_libtpu(name: str, kernel: object) -> None:
    assert "tpu_custom_call" in lower_for(kernel, shape(64, 128), target=name).text


@pytest.mark.parametrize("name", GPUS)
def test_mosaic_gpu_lowers_for_the_described_compute_capability(name: str) -> None:
    target = get(name)
    assert isinstance(target, GpuTarget)
    major, minor = target.capability
    text = lower_for(direct_gmem, shape(64, 128), target=name).kernels[0].text
    assert f"arch_major = {major} : i32" in text
    assert f"arch_minor = {minor} : i32" in text


def test_what_only_this_target_lacks_is_a_refusal() -> None:
    lower_for(pipelined_gpu, shape(64, 128), target="h100")
    with pytest.raises(CompileError) as caught:
        lower_for(pipelined_gpu, shape(64, 128), target="a100")
    assert (caught.value.kind, caught.value.stage) == ("refused", "trace")
    assert "pre-Hopper" in caught.value.reason


def test_a_mesh_of_the_users_own_may_be_set_inside() -> None:
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    with target_context("tpu-v5e"):
        with jax.set_mesh(mesh):
            assert jax.sharding.get_abstract_mesh().axis_names == ("x",)
        assert current_target() == get("tpu-v5e")
