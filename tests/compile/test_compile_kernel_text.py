"""The kernels' own modules, readable."""

import pytest
from compile_kernels import copied_by_dma, direct_gmem, scaled, shape

from typedpallas.compilers import lower_for


@pytest.mark.parametrize(
    ("fn", "target", "backend", "words"),
    [
        (copied_by_dma, "tpu-v5e", "mosaic_tpu", ("func.func @kernel(", "tpu.enqueue_dma", "memory_space<vmem>")),
        (scaled((16, 128)), "a100", "triton", ("tt.func public @kernel", "tt.load", "tt.store")),
        (direct_gmem, "h100", "mosaic_gpu", ("func.func @kernel_mosaic_gpu", "gpu.launch", "arch_major = 9")),
    ],
)
def test_each_backends_kernel_is_readable(fn: object, target: str, backend: str, words: tuple[str, ...]) -> None:
    (kernel,) = lower_for(fn, shape(64, 128), target=target).kernels
    assert (kernel.name, kernel.backend) == ("kernel", backend)
    for word in words:
        assert word in kernel.text
    assert '"stable_mosaic' not in kernel.text


def test_kernels_come_in_the_order_of_their_calls() -> None:
    def two(x: object) -> object:
        return copied_by_dma(scaled()(x))

    texts = [kernel.text for kernel in lower_for(two, shape(64, 128), target="tpu-v5e").kernels]
    assert ["enqueue_dma" in text for text in texts] == [False, True]


def test_a_function_without_kernels_has_none() -> None:
    lowered = lower_for(lambda x: x + 1, shape(64, 128), target="h100")
    assert lowered.kernels == []
    assert "stablehlo.add" in lowered.text
