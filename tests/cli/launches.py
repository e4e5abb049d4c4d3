"""A typed launch that the command line's tests name, beside a helper that is no launch."""

from typing import Literal as L

import jax.numpy as jnp

import typedpallas as tp
from typedpallas import Dim, In, Multiple, Out, f32
from typedpallas.tpu import VMEM


def relu_kernel[BM: Multiple[L[8]], N: Dim](x: In[VMEM, f32, BM, N], out: Out[VMEM, f32, BM, N]) -> None:
    out[...] = jnp.maximum(x[...], 0.0)


def helper(x):
    return x


relu = tp.launch(relu_kernel, "(i BM) N -> (i BM) N", grid="i")
