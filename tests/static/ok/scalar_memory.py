"""Scalar memory is read and written one element at a time."""

from typing import Any
from typing import Literal as L

import numpy as np
from jax.experimental import pallas as pl

from typedpallas import Dim, In, InOut, Out, Ref, i32
from typedpallas.tpu import SMEM, VMEM


def kernel[M: Dim, N: Dim](
    none: InOut[SMEM, i32],
    one: InOut[SMEM, i32, L[4]],
    two: InOut[SMEM, i32, L[4], M],
    three: In[SMEM, i32, L[4], M, N],
    unknown: Ref[SMEM, i32, *tuple[Any, ...]],
    o: Out[VMEM, i32, M, N],
) -> None:
    i = pl.program_id(0)
    none[...] = one[i]
    one[0] = none[...] + none[()]
    one[i] = one[0, ...]
    one[one[0]] = 3
    one[np.int32(3)] = 3
    two[0, i] = two.at[0, 1][...] + two.at[0][1] + two[i, i] + two[i, 0, ...]
    unknown[0, 1] = unknown[2] + unknown[...] + three[0, i, 2]
    o[...] = o[...] * one[2]
