"""The calls, by where the kernels are from. Importing this enters them all."""

from benchmarks.real_kernels.calls import (
    jax_mosaic_gpu,
    jax_splash,
    jax_tpu,
    jax_triton,
    maxtext,
    qwix,
    recurrentgemma,
    tokamax,
    tokamax_inner,
)

__all__ = [
    "jax_mosaic_gpu",
    "jax_splash",
    "jax_tpu",
    "jax_triton",
    "maxtext",
    "qwix",
    "recurrentgemma",
    "tokamax",
    "tokamax_inner",
]
