"""Which kernels the demo's table shows, with which blocks and arrays."""

from dataclasses import replace
from typing import Any

from typedpallas import chips
from typedpallas.chips import GpuTarget, Target, TpuTarget
from typedpallas.cli.demo.every_chip import Cell

_AMPERE, _HOPPER = (8, 0), (9, 0)
_FLOATS_ALONE = 4
"""TPUs before this generation multiply float32 alone."""
BLOCKS: dict[str, dict[str, dict[str, int]]] = {
    "scaled_relu": {
        "mosaic_tpu": {"BM": 512, "BN": 1024},
        "mosaic_gpu": {"BM": 64, "BN": 128},
        "triton": {"BM": 64, "BN": 128},
    },
    # Larger than some chips can hold, on purpose: 16 MiB of VMEM in buffers and sums, 128 KiB of shared memory.
    "matmul": {
        "mosaic_tpu": {"BM": 1024, "BK": 1024, "BN": 1024},
        "mosaic_gpu": {"BM": 128, "BK": 64, "BN": 128},
        "triton": {"BM": 128, "BK": 128, "BN": 128},
    },
    "flash_attention": {
        "mosaic_tpu": {"BQ": 256, "BK": 512},
        "mosaic_gpu": {"BQ": 128, "BK": 64},
        "triton": {"BQ": 64, "BK": 64},
    },
}
"""Elements."""


def backends(target: Target) -> tuple[str, ...]:
    """The backends that run these kernels on a chip."""
    if not isinstance(target, GpuTarget):
        return ("mosaic_tpu",)
    if target.capability < _AMPERE:
        return ()
    return ("mosaic_gpu", "triton") if target.capability >= _HOPPER else ("triton",)


def cells() -> list[Cell]:
    """Every kernel for every target and backend."""
    return [
        Cell(name, target, backend, replace(launch.bind(**BLOCKS[name][backend]), backend=backend), avals)
        for target in chips.targets()
        for backend in backends(chips.get(target))
        for name, (launch, avals) in _kernels(_dtype(chips.get(target))).items()
    ]


def _dtype(target: Target) -> str:
    return "float32" if isinstance(target, TpuTarget) and target.generation < _FLOATS_ALONE else "bfloat16"


def _kernels(dtype: str) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The launches and the arrays they are compiled for."""
    from typedpallas.kernels.flash_attention import launch as attention
    from typedpallas.kernels.matmul import launch as matmul
    from typedpallas.kernels.scaled_relu import launch as relu

    return {
        "scaled_relu": (relu, (_aval(dtype, 8192, 4096),)),
        "matmul": (matmul, (_aval(dtype, 4096, 4096),) * 2),
        "flash_attention": (attention(causal=True, scale=128**-0.5), (_aval(dtype, 4, 8, 2048, 128),) * 3),
    }


def _aval(dtype: str, *shape: int) -> Any:
    import jax
    import jax.numpy as jnp

    struct: Any = jax.ShapeDtypeStruct
    return struct(shape, jnp.dtype(dtype))
