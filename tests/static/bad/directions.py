"""Stores to what a kernel only reads."""

from typing import Literal as L

from typedpallas import Dim, In, InOut, Out, f32, i32
from typedpallas.tpu import SMEM, VMEM


def needs_in[M: Dim, N: Dim](x: In[VMEM, f32, M, N]) -> None: ...
def needs_out[M: Dim, N: Dim](x: Out[VMEM, f32, M, N]) -> None: ...


def kernel[M: Dim, N: Dim](
    x: In[VMEM, f32, M, N], flags: In[SMEM, i32, L[4]], both: InOut[VMEM, f32, M, N], o: Out[VMEM, f32, M, N]
) -> None:
    x[...] = o[...]  # refused
    x[0, 0] = 1.0  # refused
    x[...] += 1.0  # refused
    x.set(1.0)  # refused
    x.at[0][...] = 1.0  # refused
    x.T[...] = 1.0  # refused
    x.reshape(8, 128)[...] = 1.0  # refused
    x.swap(1.0)  # refused
    x.addupdate(1.0)  # refused
    flags[0] = 1  # refused
    needs_out(x)  # refused
    needs_in(o)  # refused
    both[...] = x[...]
    o[...] = x[...]
    needs_in(x)
    needs_out(o)
