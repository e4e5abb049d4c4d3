"""Square matrix products: ours in several configurations, cuBLAS through XLA, JAX's own Hopper kernel."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.gpu_timing import Entry, Problem
from typedpallas.kernels.gpu.matmul import matmul
from typedpallas.kernels.gpu.matmul_tuning import MatmulTuning, default

TOLERANCE = {"float16": 1e-3, "bfloat16": 5e-3}


def problems(key: jax.Array, quick: bool) -> Iterator[tuple[str, Callable[[], Problem]]]:
    """By name."""
    for dtype, size in itertools.product((jnp.bfloat16, jnp.float16), (4096, 8192)):
        name = f"matmul {jnp.dtype(dtype).name} {size}"
        yield name, functools.partial(_problem, key, name, size, dtype, quick)


def _problem(key: jax.Array, name: str, size: int, dtype: Any, quick: bool) -> Problem:
    arrays = tuple(
        jax.random.normal(jax.random.fold_in(key, i), (size, size), jnp.float32).astype(dtype) for i in range(2)
    )
    chosen = [default(size, size, size)] if quick else configurations()
    ours = [Entry(label(t), functools.partial(matmul, tuning=t), "ours") for t in chosen]
    return Problem(
        name,
        arrays,
        (Entry("cuBLAS", jnp.dot, "vendor"), *itertools.islice(_shipped(), 1 if quick else None), *ours),
        lambda a, b: jnp.dot(a.astype(jnp.float32), b.astype(jnp.float32), precision="highest"),
        TOLERANCE[jnp.dtype(dtype).name],
        2.0 * size**3,
    )


def configurations() -> list[MatmulTuning]:
    """Those worth trying."""
    found = [
        MatmulTuning(across=across, band=band, cluster=cluster, lag=3, bare=True)
        for across, band in (("m", 8), ("n", 8), ("m", 16))
        for cluster in (None, "m", "n")
    ]
    found += [
        MatmulTuning(across="n", band=4, bare=True),
        MatmulTuning(tile_m=256, tile_n=128, split="m", store_n=32, lag=2, bare=True, across="n", band=8),
    ]
    return found


def label(tuning: MatmulTuning) -> str:
    """Short."""
    lag = f" lag {tuning.lag}" if tuning.lag else ""
    return (
        f"{tuning.tile_m}x{tuning.tile_n}x{tuning.tile_k} {tuning.stages} stages, split {tuning.split}, "
        f"bands {tuning.across}{tuning.band}, cluster {tuning.cluster or '-'}{lag}{' bare' if tuning.bare else ''}"
    )


def _shipped() -> Iterator[Entry]:
    try:
        from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as shipped
    except ImportError:
        return
    axis = shipped.MatmulDimension
    for tile, stages, minor, width, split in (
        ((128, 128, 64), 4, "N", 8, "M"),
        ((128, 128, 64), 3, "M", 16, "N"),
        ((64, 256, 64), 4, "M", 8, "M"),
    ):
        config = shipped.TuningConfig(
            tile_m=tile[0],
            tile_n=tile[1],
            tile_k=tile[2],
            max_concurrent_steps=stages,
            epi_tile_n=64,
            epi_tile_m=64,
            grid_minor_dim=axis[minor],
            grid_tile_width=width,
            wg_dimension=axis[split],
        )
        run = functools.partial(_run_shipped, shipped.matmul, config)
        yield Entry(f"JAX's {'x'.join(map(str, tile))} {stages} stages {minor}{width} split {split}", run, "jax")


def _run_shipped(run: Callable[..., Any], config: Any, a: jax.Array, b: jax.Array) -> Any:
    return run(a, b, None, config)
